//! Programs that speak TLS, and HTTP/2; certificates are made by the tests. And a listener that is handed from one to the next.

mod certificates;
mod handed_over;
mod http2;
mod reload;
mod scene;
mod whole_cluster;
