// Bytes as text: five letters for four bytes, where base64 takes eight for six. web/build.mjs writes it.

/** The letters: printable ASCII without those that mean something in HTML or in a script. */
const LETTERS = Array.from({ length: 94 }, (_, at) => String.fromCharCode(33 + at)).filter((c) => !"\"&'<>\\`{}".includes(c)).slice(0, 85).join("");

/** The bytes of a text: its first letters tell how many, up to a space. */
export function unpacked(text: string): Uint8Array<ArrayBuffer> {
  const values = new Uint8Array(128);
  for (let at = 0; at < LETTERS.length; at += 1) values[LETTERS.charCodeAt(at)] = at;
  const begin = text.indexOf(" ") + 1;
  const length = Number(text.slice(0, begin));
  const words = new DataView(new ArrayBuffer(4 * Math.ceil(length / 4)));
  for (let from = begin, to = 0; to < words.byteLength; to += 4) {
    let word = 0;
    for (const end = from + 5; from < end; from += 1) word = word * 85 + (values[text.charCodeAt(from)] ?? 0);
    words.setUint32(to, word);
  }
  return new Uint8Array(words.buffer, 0, length);
}
