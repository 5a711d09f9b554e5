#![no_main]

peerlane_fuzz::fuzz!(rdma_topo);
