#![no_main]

peerlane_fuzz::fuzz!(lspci_lines);
