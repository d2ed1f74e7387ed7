//! Every key is a linearizable register: for clients of two gateways of a real cluster, and for the checker itself.

mod written;

mod histories;
mod lying_door;
mod random_histories;
mod real_cluster;
mod simulated;
