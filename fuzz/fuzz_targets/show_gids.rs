#![no_main]

peerlane_fuzz::fuzz!(show_gids);
