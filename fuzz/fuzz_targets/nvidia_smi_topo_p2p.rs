#![no_main]

peerlane_fuzz::fuzz!(nvidia_smi_topo_p2p);
