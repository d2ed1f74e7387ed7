//! Ring changes under checked load: nothing is noticed when all goes well, and nothing is wrong when somebody is killed.

mod cold_and_warm;
mod killed_parties;
mod load;
