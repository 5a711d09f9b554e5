#![no_main]

peerlane_fuzz::fuzz!(labelled_matrix);
