//! Boards as their manuals describe them, and sheets that cannot be built.

use super::*;
use peerlane_machine::fabric::PathClass;
use peerlane_read::catalogue::read_system;

/// The slot table of the ASUS X99-E WS: seven slots behind two switch chips, of which six share lanes in pairs.
const X99_E_WS: &str = "
# slot     lanes          shared
PCIEX16_1  x16     @plx0
PCIEX16_2  x16/x8  @plx0  shares PCIEX16_3
PCIEX16_3  x8      @plx0  in x16
PCIEX16_4  x16/x8  @plx1  shares PCIEX16_5
PCIEX16_5  x8      @plx1  in x16
PCIEX16_6  x16/x8  @plx1  shares PCIEX16_7
PCIEX16_7  x8      @plx1  in x16
";

fn x99(cards: &[&str]) -> Sheet {
    let switch = |text: &str| text.parse::<Switch>().unwrap();
    Sheet {
        name: "x99".to_owned(),
        board: Some("ASUS X99-E WS".to_owned()),
        cpu: Some(Product::cpu("Xeon E5-2630 v4").unwrap()),
        sockets: 1,
        switches: vec![switch("plx0 PEX 8747 @cpu0"), switch("plx1 PEX 8747 @cpu0")],
        slots: SlotLine::table(X99_E_WS).unwrap(),
        cards: cards.iter().flat_map(|card| Card::several(card).unwrap()).collect(),
        bridges: Vec::new(),
        assumed: false,
    }
}

/// The link of each device.
fn links(plan: &Plan) -> Vec<String> {
    let devices = plan.owners.iter().flat_map(|o| &o.seats).flat_map(|seat| &seat.devices);
    devices.map(|d| format!("{} {}", d.name, d.link)).collect()
}

#[test]
fn the_slots_of_a_workstation_board_have_the_lanes_that_its_manual_gives() {
    let one = x99(&["GTX 1080 @PCIEX16_2"]).plan().unwrap();
    assert_eq!(links(&one), ["GPU0 3.0 x16"]);
    let slots = "PCIEX16_1,PCIEX16_2,PCIEX16_3,PCIEX16_4,PCIEX16_5,PCIEX16_6,PCIEX16_7";
    let seven = x99(&[&format!("GTX 1080 @{slots}")]).plan().unwrap();
    let widths: Vec<String> = links(&seven).iter().map(|l| l.split(" x").nth(1).unwrap().to_owned()).collect();
    assert_eq!(widths, ["16", "8", "8", "8", "8", "8", "8"]);
    // 40 lanes of the CPU, two uplinks of 16; 48 of each switch
    assert_eq!(seven.owners.iter().map(|o| o.free().unwrap()).collect::<Vec<_>>(), [8, 0, 0]);
    let group = &seven.groups[0];
    assert_eq!(group.slots, ["PCIEX16_2", "PCIEX16_3"]);
    assert_eq!(group.allocations, [[8, 8], [16, 0], [0, 8]]);
    let machine = read_system(seven.file(), "x99.toml").unwrap();
    let id = |name| machine.fabric.find(name).unwrap();
    assert_eq!(machine.fabric.class(id("GPU0"), id("GPU2")), Some(PathClass::Pix));
    assert_eq!(machine.fabric.class(id("GPU0"), id("GPU3")), Some(PathClass::Phb));
    assert_eq!(machine.slots.iter().map(|s| u32::from(s.wired)).sum::<u32>(), 64);
}

/// Two EPYC packages with the slots of a server: four at each, of which one shares its lanes with two M.2 drives.
fn two_sockets(cards: &[&str]) -> Sheet {
    let table = "SLOT1 PCIe 5.0 x16 @cpu0\nSLOT2 5.0 x16 @cpu0\nSLOT3 4.0 x8 in x16 @cpu0\nSLOT4 5.0 x16 @cpu1\n\
                 SLOT5 5.0 x16 @cpu1\nSLOT6 x16/x8/x8 @cpu1 shares M2_1, M2_2\nM2_1 x4 @cpu1\nM2_2 x4 @cpu1\n";
    Sheet {
        name: "two".to_owned(),
        cpu: Some(Product::cpu("EPYC 9554").unwrap()),
        sockets: 2,
        slots: SlotLine::table(table).unwrap(),
        cards: cards.iter().flat_map(|card| Card::several(card).unwrap()).collect(),
        ..Sheet::default()
    }
}

#[test]
fn two_sockets_are_joined_and_keep_lanes_for_that() {
    let cards = ["RTX 4090 @SLOT1,SLOT4,SLOT6", "ConnectX-7 @SLOT2", "ConnectX-7 @SLOT3:x4", "nvme:Samsung 990 @M2_1"];
    let plan = two_sockets(&cards).plan().unwrap();
    let expected = ["GPU0 4.0 x16", "mlx5_0 5.0 x16", "mlx5_1 4.0 x4", "GPU1 4.0 x16", "GPU2 4.0 x8", "nvme0 5.0 x4"];
    assert_eq!(links(&plan), expected);
    assert_eq!(plan.owners.iter().map(|o| o.free().unwrap()).collect::<Vec<_>>(), [40, 32]);
    assert!(plan.notes[0].contains("128 lanes") && plan.notes[0].contains("48"), "{:?}", plan.notes);
    let machine = read_system(plan.file(), "two.toml").unwrap();
    let id = |name| machine.fabric.find(name).unwrap();
    assert_eq!(machine.fabric.class(id("GPU0"), id("GPU1")), Some(PathClass::Sys));
    assert!(plan.file().contains("smp = \"xgmi\"") && plan.file().contains("allowed = \"4.0 x8\""), "{}", plan.file());
}

#[test]
fn a_slot_is_split_between_its_cards() {
    let plan = two_sockets(&["ConnectX-7 @SLOT1,SLOT1", "RTX 4090 @SLOT2"]).plan().unwrap();
    assert_eq!(links(&plan), ["mlx5_0 5.0 x8", "mlx5_1 5.0 x8", "GPU0 4.0 x16"]);
    assert!(plan.notes.iter().any(|note| note.contains("SLOT1 is split into x8/x8")), "{:?}", plan.notes);
    let errors = two_sockets(&["ConnectX-7 @SLOT3,SLOT3,SLOT3"]).plan().unwrap_err();
    assert_eq!(errors, ["3 cards are in SLOT3, and its x8 cannot be split for them; it splits into x4/x4"]);
}

#[test]
fn everything_that_cannot_be_built_is_listed() {
    let mut sheet = x99(&["RTX 4090 @PCIEX16_8", "H100 SXM5 @PCIEX16_1", "GTX 1080 @PCIEX16_2:x32"]);
    sheet.slots[0].at = "plx7".to_owned();
    sheet.slots.push("M2_1 x4 @cpu0 shares PCIEX16_9".parse().unwrap());
    sheet.slots.push("X x16 @cpu0".parse().unwrap());
    sheet.bridges.push(Bridge { between: ["GPU0".to_owned(), "GPU0".to_owned()], bricks: None });
    let errors = sheet.plan().unwrap_err();
    for expected in [
        "RTX 4090 is at 'PCIEX16_8', which is no slot; nearest: PCIEX16_1",
        "H100 SXM5 (NVIDIA H100",
        "GTX 1080 cannot run at x32 at PCIEX16_2: card and place allow 3.0 x16",
        "slot PCIEX16_1 is at 'plx7', which is no CPU or switch; nearest: plx0",
        "M2_1 shares lanes with 'PCIEX16_9', which is no slot",
        "cpu0 (Xeon E5-2630 v4) has 40 lanes, but 52 are connected: plx0 x16, plx1 x16, M2_1 x4, X x16",
        "an NVLink bridge joins two different GPUs",
    ] {
        assert!(errors.iter().any(|error| error.starts_with(expected)), "wanted '{expected}' in {errors:#?}");
    }
    assert_eq!(errors.len(), 7, "{errors:#?}");
}

#[test]
fn words_that_mean_nothing_are_refused_with_what_to_write() {
    let slot = |text: &str| text.parse::<SlotLine>().unwrap_err();
    for text in [
        "",
        "SLOT1",
        "SLOT1 x3",
        "S x8/x16",
        "S x16 in x8",
        "S x16 in",
        "S x16 @",
        "S x16 shares",
        "S x0",
        "S x16 wide",
    ] {
        let error = slot(text);
        assert!(error.contains("SLOT1 x16 @cpu0") || error == "a name is missing", "{text}: {error}");
    }
    assert_eq!(SlotLine::table("A x16\nB y\n# C\n\nD z").unwrap_err().len(), 2);
    let card = |text: &str| Card::several(text).unwrap_err();
    assert!(card("RTX 4900 @S").contains("no card 'RTX 4900' is known; nearest: rtx 4090"), "{}", card("RTX 4900 @S"));
    assert!(card("RTX 4090").contains("write where the card sits"));
    for several in ["3 RTX 4090 @S", "2x RTX 4090 @S", "2 × RTX 4090 @S"] {
        assert!(card(several).contains("each of its slots"), "{}", card(several));
    }
    assert!(card("RTX 4090 @S:x7").contains("x7"));
    assert!(Product::cpu("RTX 4090").unwrap_err().contains("no CPU 'RTX 4090' is known"));
    assert!(Product::cpu(&"9".repeat(1_000_000)).unwrap_err().len() < 200);
    assert!("plx0".parse::<Switch>().is_err() && "plx0 RTX 4090".parse::<Switch>().is_err());
}

#[test]
fn names_with_quotes_and_hidden_characters_stay_names() {
    let mut sheet = two_sockets(&["gpu:A \"new\" card\u{1b}[2J @SLOT1"]);
    sheet.board = Some("Board \"7\" \\ x".to_owned());
    sheet.slots[1].name = "SLOT \"2\"".to_owned();
    let plan = sheet.plan().unwrap();
    let machine = read_system(plan.file(), "two.toml").unwrap();
    assert!(machine.title.unwrap().starts_with("Board \"7\" \\ x with A \"new\" card"));
    assert!(!plan.file().contains('\u{1b}'));
}

proptest::proptest! {
    #[test]
    fn any_words_are_read_or_refused(text in "\\PC{0,60}", at in "[a-zA-Z0-9_@:x/ ]{0,30}") {
        let _ = text.parse::<Switch>();
        let _ = SlotLine::table(&format!("{text}\n{at}"));
        let _ = Product::cpu(&text);
        let mut sheet = two_sockets(&[]);
        sheet.slots.extend(format!("{text} x8/x4 @{at}").parse::<SlotLine>());
        sheet.cards.extend(Card::several(&format!("RTX 4090 @{at}")).into_iter().flatten());
        if let Ok(plan) = sheet.plan() {
            proptest::prop_assert!(read_system(plan.file(), "x").is_ok());
        }
    }
}
