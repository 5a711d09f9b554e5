//! What the blocks of `lspci` state of health: status bits of Advanced Error Reporting, drivers, links of ports that are shown alone.

use super::super::aer;
use super::super::health::Health;
use super::block::Block;
use peerlane_machine::fact::{Area, Grade, PciRole};

/// Drivers of NVIDIA's GPUs with which CUDA does not see them.
const WITHOUT_CUDA: [&str; 2] = ["nouveau", "nvidiafb"];

/// Drivers of displays that are no GPUs to compute with.
const DISPLAYS: [&str; 6] = ["i915", "xe", "ast", "mgag200", "radeon", "gma500"];

/// Reads a line of a block, whose link is known.
pub(super) fn line(health: &mut Health, block: &Block, line: &str, at: usize) {
    let is_narrow = block.device.running.lanes.zip(block.device.capable.lanes).is_some_and(|(now, most)| now < most);
    let part = block.device.address.map(|address| address.to_string());
    aer::status(health, part.as_deref(), is_narrow, line, at);
}

/// What a whole listing shows: GPUs without the driver that programs need, and ports whose partner is not listed.
pub(super) fn of_list(blocks: &[Block], health: &mut Health) {
    let shows_drivers = blocks.iter().any(|block| block.driver.is_some());
    for block in blocks {
        let device = &block.device;
        let part = device.address.map(|address| address.to_string());
        let mut report =
            |area, grade, what, value: &str| health.trouble(area, grade, part.as_deref(), what, value, block.at);
        if block.is_silent && (device.is_gpu() || device.is_nic()) {
            report(Area::Pcie, Grade::Fault, "does not answer, and has fallen off the bus:", "its header reads as 7f");
        }
        let mut has_driver = false;
        match block.driver.as_deref() {
            Some(driver) if device.is_gpu() && device.vendor == Some(0x10de) && WITHOUT_CUDA.contains(&driver) => {
                report(Area::Driver, Grade::Limit, "Kernel driver in use:", driver);
            }
            Some(driver @ "vfio-pci") if device.is_gpu() || device.is_nic() => {
                report(Area::Driver, Grade::Note, "Kernel driver in use:", driver);
            }
            Some(driver) if device.is_gpu() || device.is_nic() || DISPLAYS.contains(&driver) => has_driver = true,
            // a listing that was not filtered names the driver next to the modules
            None if block.has_modules
                && (shows_drivers || device.running.lanes.is_some())
                && (device.is_gpu() || device.is_nic()) =>
            {
                report(Area::Driver, Grade::Suspect, "Kernel driver in use:", "none");
            }
            _ => {}
        }
        // RAID cards and others: a link that is narrower than the card is worth a note; a disk's rate is that of its link
        let is_other = device.role == PciRole::Endpoint && !device.is_gpu() && !device.is_nic();
        if let Some((now, most)) = device.running.lanes.zip(device.capable.lanes)
            && is_other
            && (1..most).contains(&now)
        {
            let is_disk = device.class.is_some_and(|class| class >> 8 == 0x0108);
            let (grade, what) =
                if is_disk { (Grade::Limit, "the disk's link:") } else { (Grade::Note, "the card's link:") };
            report(Area::Pcie, grade, what, &format!("x{now} of x{most}"));
        }
        let is_below = |other: &Block| {
            let bus = other.device.address.map(|at| (at.domain, at.bus));
            bus.is_some() && bus == block.secondary.zip(device.address).map(|(bus, at)| (at.domain, bus))
        };
        if device.role == PciRole::Bridge
            && let Some((now, most)) = device.running.lanes.zip(device.capable.lanes)
            && !blocks.iter().any(is_below)
        {
            match now < most {
                true => report(
                    Area::Pcie,
                    Grade::Limit,
                    "the port's link:",
                    &format!("x{now} of x{most}; the card below is not shown"),
                ),
                false => health.sound(Area::Pcie, block.at),
            }
        }
        if has_driver {
            health.sound(Area::Driver, block.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::scanned;
    use super::super::scan;
    use peerlane_machine::fact::{Fact, Grade, HealthReport};

    fn reports(text: &str) -> Vec<HealthReport> {
        let of = |fact| if let Fact::Health(report) = fact { Some(report) } else { None };
        scanned(scan, text).evidence.into_iter().filter_map(|e| of(e.fact)).collect()
    }

    fn gpu(width: &str, bits: &str) -> String {
        format!(
            "41:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)\n\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\
             \t\tLnkSta:\tSpeed 16GT/s, Width {width}\n\t\tCESta:\t{bits} Rollover- Timeout-\n"
        )
    }

    #[test]
    fn links_of_other_cards() {
        let card = |now: &str| {
            format!(
                "03:00.0 RAID bus controller: Broadcom / LSI MegaRAID SAS 2008 (rev 03)\n\t\tLnkCap:\tPort #0, Speed 5GT/s, Width x8\n\
                 \t\tLnkSta:\tSpeed 5GT/s, Width {now}\n"
            )
        };
        let notes =
            |now| reports(&card(now)).iter().flat_map(|r| &r.troubles).filter(|t| t.grade == Grade::Note).count();
        assert_eq!((notes("x8"), notes("x4"), notes("x0")), (0, 1, 0));
    }

    #[test]
    fn status_bits() {
        for (width, bits, sound, grades) in [
            ("x16", "RxErr- BadTLP- AdvNonFatalErr-", 1, &[][..]),
            ("x16", "RxErr- BadTLP- AdvNonFatalErr+", 1, &[Grade::Note]),
            ("x16", "RxErr- BadTLP+ AdvNonFatalErr+", 0, &[Grade::Suspect]),
            ("x8", "RxErr+ BadTLP+", 0, &[Grade::Fault]),
        ] {
            let all = reports(&gpu(width, bits));
            let read: Vec<Grade> = all[0].troubles.iter().map(|t| t.grade).collect();
            assert_eq!((all[0].sound, read.as_slice()), (sound, grades), "{width} {bits}");
            assert!(all[0].troubles.iter().all(|t| t.part.as_deref() == Some("0000:41:00.0")));
        }
    }

    #[test]
    fn drivers() {
        let with = |driver: &str| {
            let modules = "\tKernel modules: nvidiafb, nouveau, nvidia\n";
            let other =
                "32:00.0 Infiniband controller: Mellanox Technologies MT2910\n\tKernel driver in use: mlx5_core\n";
            reports(&format!("17:00.0 3D controller: NVIDIA Corporation GH100\n{driver}{modules}{other}"))
        };
        let bound = with("\tKernel driver in use: nvidia\n");
        assert_eq!((bound[0].sound, bound[0].troubles.len()), (2, 0));
        assert_eq!(with("\tKernel driver in use: nouveau\n")[0].troubles[0].grade, Grade::Limit);
        assert_eq!(with("")[0].troubles[0].grade, Grade::Suspect);
    }

    #[test]
    fn a_device_that_does_not_answer() {
        let of = reports("41:00.0 3D controller: NVIDIA Corporation GA100 (rev ff)\n\t!!! Unknown header type 7f\n");
        assert_eq!(of[0].troubles[0].grade, Grade::Fault);
    }

    #[test]
    fn a_port_alone() {
        let port = |width: &str| {
            reports(&format!(
                "00:01.1 PCI bridge: Intel Corporation Device 1234\n\tBus: primary=00, secondary=01, subordinate=01\n\
                 \t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width {width}\n"
            ))
        };
        assert_eq!(port("x4")[0].troubles[0].grade, Grade::Limit);
        assert_eq!((port("x16")[0].sound, port("x0 (downgraded)").len()), (1, 0));
    }
}
