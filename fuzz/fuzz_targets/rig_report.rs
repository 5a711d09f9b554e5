#![no_main]

peerlane_fuzz::fuzz!(rig_report);
