use super::*;

/// A text as readers of tables are shown it, lines with their numbers.
fn shown(text: &str) -> Vec<(u32, String)> {
    let text = Text::new("t", text.as_bytes());
    let plain = in_columns(&text, &mut Found::default()).unwrap_or(text);
    plain.iter().map(|(i, line)| (plain.numbers(i, i).0, line.replace('\t', " "))).collect()
}

#[test]
fn however_it_is_drawn_a_table_has_one_form() {
    let wanted = ["D\\D 0 1", "0 X 26.13", "1 25.97 X"];
    for text in [
        "| D\\D | 0 | 1 |\n|-----|--:|---|\n| 0 | X | 26.13 |\n| 1 | **25.97** | X |\n",
        "D\\D | 0 | 1\n--- | --- | ---\n0 | X | 26.13\n1 | 25.97 | X\n",
        "| D\\\\D | 0 | 1 |\n| 0 | X | 26.13 |\n| 1 | `25.97` | X |\n",
        "+-----+-------+-------+\n| D\\D |     0 |     1 |\n+=====+=======+=======+\n| 0   |     X | 26.13 |\n+-----+-------+-------+\n| 1   | 25.97 |     X |\n+-----+-------+-------+\n",
        "┌─────┬───────┬───────┐\n│ D\\D │ 0     │ 1     │\n├─────┼───────┼───────┤\n│ 0   │ X     │ 26,13 │\n│ 1   │ 25,97 │ X     │\n└─────┴───────┴───────┘\n",
        "D\\D;0;1\n0;X;26,13\n1;25,97;X\n",
        "D\\D,0,1\n0,X,26.13\n1,25.97,X\n",
        "\"D\\D\",\"0\",\"1\"\n\"0\",\"X\",\"26,13\"\n\"1\",\"25,97\",\"X\"\n",
        "<table><tr><th>D\\D</th><th>0</th><th>1</th></tr>\n<tr><td>0</td><td>X</td><td>26,13</td></tr><tr>\n<td>1</td>\n<td>25,97</td><td>X</td></tr></table>\n",
        "===  =====  =====\nD\\D  0      1\n===  =====  =====\n0    X      26,13\n1    25,97  X\n===  =====  =====\n",
        "D\\D\t0\t1\n0\tX\t26,13\n1\t25,97\tX\n",
        "D\\D 0 1\n0 X 26,13\n1 25,97 X\n",
        "D\\D\n0\n1\n0\nX\n26,13\n1\n25,97\nX\n",
        "D\\D 0 1 0 X 26,13 1 25,97 X\n",
        "D\\D 0 1 0 X\n26.13 1 25.97\nX\n",
    ] {
        let lines: Vec<String> = shown(text).into_iter().map(|(_, line)| line).collect();
        let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(lines.iter().map(words).collect::<Vec<_>>(), wanted, "{text}");
    }
}

#[test]
fn lines_keep_their_numbers() {
    let text = "title\n\n| a | b |\n|---|---|\n| 1 | 2,5 |\nend\n";
    let wanted = [(1, "title"), (2, ""), (3, "a b"), (5, "1 2.5"), (6, "end")];
    assert_eq!(shown(text), wanted.map(|(n, line)| (n, line.to_owned())));
}

#[test]
fn what_is_no_table_stays() {
    for text in [
        "dmesg | grep NVRM\ndmesg | grep AER\n",
        "Hello, world\nand more, of it\n",
        "0, NVIDIA A100-SXM4-40GB, 00000000:07:00.0\n1, NVIDIA A100-SXM4-40GB, 00000000:0F:00.0\n",
        "a;b\n",
        "GPU0 X PHB 0,20\nGPU1 PHB X 1,21\n",
        "# size count\n  1024  256  float  sum\n",
        "a\nb\nc\nd\ne\nf\ng\nh\n",
        "0\n1\n2\n3\n4\n5\n6\n7\n",
        "nvidia-smi\nGPU 0\n",
    ] {
        let lines = shown(text).into_iter().map(|(_, line)| line + "\n").collect::<String>();
        assert_eq!(lines, text);
    }
}

#[test]
fn lists_of_cpus_are_no_numbers() {
    let text =
        "| | GPU0 | GPU1 | CPU Affinity |\n|---|---|---|---|\n| GPU0 | X | PHB | 0,20 |\n| GPU1 | PHB | X | 0,20 |\n";
    assert_eq!(shown(text)[1].1, "GPU0 X PHB 0,20");
}

#[test]
fn a_number_with_two_readings_is_left_and_reported() {
    let text = Text::new("t", b"| pair | GB/s |\n|---|---|\n| a | 13,469 |\n| b | 13,600 |\n");
    let mut found = Found::default();
    let plain = in_columns(&text, &mut found).unwrap();
    assert_eq!(plain.line(1), "a\t13,469");
    let [warning] = &found.warnings[..] else { panic!("{found:?}") };
    assert!(warning.message.contains("'13,469' may have a decimal comma"), "{warning:?}");
}

#[test]
fn topology_and_sizes_with_one_cell_a_line() {
    let topology = "nvidia-smi topo -m\nGPU0\nGPU1\nCPU Affinity\nGPU0\nX\nPHB\n0-9,20-29\nGPU1\nPHB\nX\n0-9,20-29\n";
    let lines: Vec<String> = shown(topology).into_iter().map(|(_, line)| line).collect();
    assert_eq!(
        lines,
        ["nvidia-smi topo -m", " GPU0 GPU1 CPU Affinity", "GPU0 X PHB 0-9,20-29", "GPU1 PHB X 0-9,20-29"]
    );
    let sizes = "#bytes\n#iterations\nBW average[Gb/sec]\n2\n1000\n0,11\n4\n1000\n0,22\n\nend\n";
    let lines: Vec<String> = shown(sizes).into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["#bytes #iterations BW average[Gb/sec]", "2 1000 0.11", "4 1000 0.22", "", "end"]);
}

#[test]
fn sizes_of_messages_are_bytes() {
    let text = "| Size | busbw |\n|---|---|\n| 1 MiB | 12,5 |\n| 8M | 20,25 |\n| 16 | 3,5 |\n";
    let lines: Vec<String> = shown(text).into_iter().map(|(_, line)| line).collect();
    assert_eq!(lines, ["Size busbw", "1048576 12.5", "8388608 20.25", "16 3.5"]);
}

#[test]
fn a_unit_that_title_and_cells_name_stays_in_the_title() {
    let text = "Rates (GB/s)\n\n| D | 0 | 1 |\n|---|---|---|\n| 0 | X | 26,13 GB/s |\n| 1 | 25,97 GB/s | X |\n";
    assert_eq!(shown(text)[3].1, "0 X 26.13");
    let mixed = text.replace("25,97 GB/s", "25,97 MB/s");
    assert_eq!(shown(&mixed)[3].1, "0 X 26.13 GB/s");
}
