//! `nvidia-smi -q -x`: what `nvidia-smi -q` prints, as XML. Each element stands for a field of the text, which alone knows
//! what it means.

use super::super::xml::{Document, Element, documents};
use super::{Fact, Found, GpuFacts, Text, finished, set};

const TOOL: &str = "nvidia-smi -q -x";

/// An element and the one around it, with the section and the field of the text that they stand for.
const FIELDS: [(&str, &str, &str, &str); 42] = [
    ("gpu", "product_name", "", "Product Name"),
    ("gpu", "uuid", "", "GPU UUID"),
    ("gpu", "c2c_mode", "", "GPU C2C Mode"),
    ("gpu", "gpu_recovery_action", "", "GPU Recovery Action"),
    ("mig_mode", "current_mig", "MIG Mode", "Current"),
    ("pcie_gen", "max_link_gen", "PCIe Generation", "Max"),
    ("pcie_gen", "current_link_gen", "PCIe Generation", "Current"),
    ("pcie_gen", "max_device_link_gen", "PCIe Generation", "Device Max"),
    ("link_widths", "max_link_width", "Link Width", "Max"),
    ("link_widths", "current_link_width", "Link Width", "Current"),
    ("pci", "replay_counter", "PCI", "Replays Since Reset"),
    ("fb_memory_usage", "total", "FB Memory Usage", "Total"),
    ("bar1_memory_usage", "total", "BAR1 Memory Usage", "Total"),
    ("utilization", "gpu_util", "Utilization", "GPU"),
    ("temperature", "gpu_temp", "Temperature", "GPU Current Temp"),
    ("remapped_rows", "remapped_row_pending", "Remapped Rows", "Pending"),
    ("remapped_rows", "remapped_row_failure", "Remapped Rows", "Remapping Failure Occurred"),
    ("fabric", "state", "Fabric", "State"),
    ("fabric", "status", "Fabric", "Status"),
    ("fabric", "cliqueId", "Fabric", "CliqueId"),
    ("fabric", "clusterUuid", "Fabric", "ClusterUUID"),
    ("health", "summary", "Health", "Summary"),
    ("health", "bandwidth", "Health", "Bandwidth"),
    ("health", "route_unhealthy", "Health", "Route Unhealthy"),
    ("health", "access_timeout_recovery", "Health", "Access Timeout Recovery"),
    ("health", "incorrect_configuration", "Health", "Incorrect Configuration"),
    ("gpu_power_readings", "power_draw", "GPU Power Readings", "Power Draw"),
    ("gpu_power_readings", "instant_power_draw", "GPU Power Readings", "Instantaneous Power Draw"),
    ("gpu_power_readings", "average_power_draw", "GPU Power Readings", "Average Power Draw"),
    ("gpu_power_readings", "current_power_limit", "GPU Power Readings", "Current Power Limit"),
    ("power_readings", "power_draw", "Power Readings", "Power Draw"),
    ("power_readings", "power_limit", "Power Readings", "Power Limit"),
    ("", "gpu_idle", REASONS, "Idle"),
    ("", "applications_clocks_setting", REASONS, "Applications Clocks Setting"),
    ("", "sw_power_cap", REASONS, "SW Power Cap"),
    ("", "hw_slowdown", REASONS, "HW Slowdown"),
    ("", "hw_thermal_slowdown", REASONS, "HW Thermal Slowdown"),
    ("", "hw_power_brake_slowdown", REASONS, "HW Power Brake Slowdown"),
    ("", "sync_boost", REASONS, "Sync Boost"),
    ("", "sw_thermal_slowdown", REASONS, "SW Thermal Slowdown"),
    ("", "display_clocks_setting", REASONS, "Display Clock Setting"),
    ("", "display_clock_setting", REASONS, "Display Clock Setting"),
];

/// The section of what holds clocks down.
const REASONS: &str = "Clocks Event Reasons";

/// What the names of such reasons begin with, in newer drivers and older ones.
const REASON_OF: [&str; 2] = ["clocks_event_reason_", "clocks_throttle_reason_"];

pub(super) fn scan(text: &Text, found: &mut Found) {
    for document in documents(text, "nvidia_smi_log") {
        document.warn_if_broken(text, TOOL, found);
        let driver = child(&document, 0, "driver_version").map(str::to_owned);
        let attached: Option<usize> = child(&document, 0, "attached_gpus").and_then(|n| n.parse().ok());
        let gpus: Vec<usize> = document.children(0).filter(|(_, e)| e.name == "gpu").map(|(at, _)| at).collect();
        let complete = attached == Some(gpus.len());
        let gpus = gpus.into_iter().enumerate().map(|(i, at)| {
            // GPUs come in order of their index; where some are missing, nobody knows which
            let index = u32::try_from(i).ok().filter(|_| complete);
            GpuFacts { index, driver: driver.clone(), ..gpu(&document, at) }
        });
        found.push(text, TOOL, document.lines, Fact::Gpus(gpus.collect()));
    }
}

/// The text of an element within one.
fn child<'d>(document: &'d Document, at: usize, name: &str) -> Option<&'d str> {
    document.children(at).find(|(_, e)| e.name == name).map(|(_, e)| e.text.trim())
}

/// What the element at `at` holds of a GPU.
fn gpu(document: &Document, at: usize) -> GpuFacts {
    let address = document.get(at).and_then(|e| e.attribute("id")).and_then(|id| id.parse().ok());
    let mut gpu = GpuFacts { address, ..GpuFacts::default() };
    let mut open = vec![at];
    while let Some(parent) = open.pop() {
        let Some(around) = document.get(parent) else { continue };
        for (child, element) in document.children(parent) {
            open.push(child);
            if let Some((section, key)) = field(around, element) {
                let outer = if section == "Health" { "Fabric" } else { "" };
                set(&mut gpu, outer, section, key, element.text.trim());
            }
        }
    }
    finished(&mut gpu);
    gpu
}

/// The section and the field of the text that an element stands for.
fn field(around: &Element, element: &Element) -> Option<(&'static str, &'static str)> {
    let reason = REASON_OF.iter().find_map(|start| element.name.strip_prefix(start));
    let (around, name) = reason.map_or((around.name.as_str(), element.name.as_str()), |reason| ("", reason));
    FIELDS.iter().find(|(a, n, ..)| (*a, *n) == (around, name)).map(|(.., section, key)| (*section, *key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fact::NvlinkDomain;
    use peerlane_machine::units::Bytes;

    const LOG: &str = "<?xml version=\"1.0\" ?>
<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v13.dtd\">
<nvidia_smi_log>
	<driver_version>580.95.05</driver_version>
	<attached_gpus>1</attached_gpus>
	<gpu id=\"00000008:06:00.0\">
		<product_name>NVIDIA GB300</product_name>
		<mig_mode><current_mig>Disabled</current_mig></mig_mode>
		<uuid>GPU-1</uuid>
		<c2c_mode>Enabled</c2c_mode>
		<gpu_recovery_action>None</gpu_recovery_action>
		<pci>
			<pci_gpu_link_info>
				<pcie_gen>
					<max_link_gen>6</max_link_gen>
					<current_link_gen>1</current_link_gen>
					<device_current_link_gen>1</device_current_link_gen>
					<max_device_link_gen>6</max_device_link_gen>
					<max_host_link_gen>5</max_host_link_gen>
				</pcie_gen>
				<link_widths>
					<max_link_width>16x</max_link_width>
					<current_link_width>2x</current_link_width>
				</link_widths>
			</pci_gpu_link_info>
			<replay_counter>3</replay_counter>
		</pci>
		<clocks_event_reasons>
			<clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
			<clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
		</clocks_event_reasons>
		<fb_memory_usage><total>284208 MiB</total></fb_memory_usage>
		<utilization><gpu_util>0 %</gpu_util></utilization>
		<gpu_power_readings><average_power_draw>171.20 W</average_power_draw></gpu_power_readings>
		<fabric>
			<state>Completed</state>
			<status>Success</status>
			<cliqueId>1</cliqueId>
			<clusterUuid>4b5aa3cf-0000-4000-8000-000000000001</clusterUuid>
			<health><summary>Unhealthy</summary><bandwidth>Degraded</bandwidth></health>
		</fabric>
	</gpu>
</nvidia_smi_log>
";

    #[test]
    fn what_the_text_has_too() {
        let mut found = Found::default();
        scan(&Text::new("q.xml", LOG.as_bytes()), &mut found);
        let [one] = found.evidence.as_slice() else { panic!("{found:?}") };
        let Fact::Gpus(gpus) = &one.fact else { panic!() };
        let [gpu] = gpus.as_slice() else { panic!() };
        assert_eq!((gpu.index, gpu.name.as_deref(), gpu.mig), (Some(0), Some("NVIDIA GB300"), Some(false)));
        assert_eq!(gpu.address.map(|a| a.to_string()).as_deref(), Some("0008:06:00.0"));
        assert_eq!((gpu.running, gpu.allowed), ("1.0 x2".parse().unwrap(), "6.0 x16".parse().unwrap()));
        assert_eq!((gpu.memory, gpu.replays, gpu.power), (Some(Bytes::from_mib(284_208)), Some(3), Some(171.2)));
        assert_eq!((gpu.c2c, gpu.recovery.as_ref(), gpu.utilization), (Some(true), None, Some(0.0)));
        assert_eq!(gpu.clock_event_reasons, ["Idle"]);
        assert_eq!((gpu.fabric_state.as_deref(), gpu.fabric_status.as_deref()), (Some("Completed"), Some("Success")));
        assert_eq!(gpu.fabric_health, ["Summary: Unhealthy", "Bandwidth: Degraded"]);
        let cluster = "4b5aa3cf-0000-4000-8000-000000000001".to_owned();
        assert_eq!(gpu.nvlink_domain, Some(NvlinkDomain { cluster, clique: Some(1) }));
    }

    #[test]
    fn a_cut_file_and_another_tree() {
        let mut found = Found::default();
        let cut = LOG.split("<fabric>").next().unwrap();
        scan(&Text::new("q.xml", cut.as_bytes()), &mut found);
        assert_eq!((found.evidence.len(), found.warnings.len()), (1, 1));
        let mut found = Found::default();
        scan(&Text::new("q.xml", b"<system version=\"1\"><gpu id=\"1\"/></system>"), &mut found);
        assert_eq!(found, Found::default());
    }
}
