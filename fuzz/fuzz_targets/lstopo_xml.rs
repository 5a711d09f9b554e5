#![no_main]

peerlane_fuzz::fuzz!(lstopo_xml);
