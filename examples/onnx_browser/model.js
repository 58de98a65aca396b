// Answer texts in the browser with one ONNX file: `antiphon export RUN --to onnx --with-search --out model.onnx`.
// The file is read by `OnnxFile.load(url, ort)`, where `ort` is the module onnxruntime-web.

const [PAD, START, END, UNKNOWN] = [0, 1, 2, 3]; // the ids that every model has; its own tokens follow
const OWN = 4;
const OPTIONS = { beam: "int64", length_penalty: "float32", max_length: "int64" };

// The two things that onnxruntime-web does not offer are read from the bytes of the file, which are a protobuf message:
// its metadata, and inputs that have a default.

/** The fields of a protobuf message: number, and for those with a length, first and last byte. */
function* fields(bytes, first, last) {
  let at = first;
  const number = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) return value;
    }
  };
  while (at < last) {
    const key = number();
    const kind = key & 7;
    if (kind === 0) number();
    else if (kind === 1) at += 8;
    else if (kind === 5) at += 4;
    else if (kind === 2) {
      const length = number();
      yield { field: Math.floor(key / 8), first: at, last: at + length };
      at += length;
    } else throw new Error("this is not an ONNX file");
  }
}

const string = (bytes, part) => new TextDecoder().decode(bytes.subarray(part.first, part.last));

/** The facts that the export has put into the metadata (field 14: key 1, value 2). */
export function readFacts(bytes) {
  for (const entry of fields(bytes, 0, bytes.length)) {
    if (entry.field !== 14) continue;
    const [key, value] = [...fields(bytes, entry.first, entry.last)].map((part) => string(bytes, part));
    if (key === "antiphon") return JSON.parse(value);
  }
  throw new Error("this file was not written by `antiphon export --with-search`");
}

/** The file with its options as plain inputs: onnxruntime-web refuses a value for an input that has a default.
 *  A default is an initializer (graph 7, initializer 5, its name 8) of the same name; here it gets another name. */
export function requireOptions(bytes) {
  const copy = bytes.slice();
  for (const graph of fields(copy, 0, copy.length)) {
    if (graph.field !== 7) continue;
    for (const tensor of fields(copy, graph.first, graph.last)) {
      if (tensor.field !== 5) continue;
      for (const part of fields(copy, tensor.first, tensor.last)) {
        if (part.field === 8 && string(copy, part) in OPTIONS) copy[part.first] = "_".charCodeAt(0);
      }
    }
  }
  return copy;
}

/** Text to ids and back, for words, characters and letters. */
export class PlainTokenizer {
  constructor({ kind, symbols, form = {} }) {
    if (!symbols) throw new Error(`the tokens of this model are ${kind}; this example has words, characters and letters`);
    this.kind = kind;
    this.symbols = symbols;
    this.form = form;
    this.ids = new Map(symbols.map((symbol, number) => [symbol, number + OWN]));
  }

  encode(text) {
    const normal = (one) => (this.form.normalization ? one.normalize(this.form.normalization.toUpperCase()) : one);
    text = normal(text);
    if (this.form.lowercase) text = normal(text.toLowerCase());
    return this.split(text).flatMap((symbol) => this.find(symbol));
  }

  split(text) {
    if (this.kind === "words") return text.split(/\s+/u).filter((word) => word);
    if (this.kind === "letters") return [...text.normalize("NFD")];
    return [...new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text)].map((one) => one.segment);
  }

  /** The id of a symbol; a character that is unknown as a whole is spelt by its parts if all of them are known. */
  find(symbol) {
    if (this.ids.has(symbol)) return [this.ids.get(symbol)];
    const parts = this.kind === "characters" ? [...symbol] : [];
    return parts.length && parts.every((part) => this.ids.has(part)) ? parts.map((part) => this.ids.get(part)) : [UNKNOWN];
  }

  decode(ids) {
    const own = ids.filter((id) => ![PAD, START, END].includes(id));
    const text = own
      .map((id) => (id === UNKNOWN ? "<unk>" : this.symbols[id - OWN]))
      .join(this.kind === "words" ? " " : "");
    return this.kind === "letters" ? text.normalize("NFC") : text;
  }
}

/** A model with its search: texts in, answers out. */
export class OnnxFile {
  static async load(url, ort) {
    const response = await fetch(url);
    if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    const options = { executionProviders: ["wasm"], logSeverityLevel: 3 };
    return new OnnxFile(ort, readFacts(bytes), await ort.InferenceSession.create(requireOptions(bytes), options));
  }

  constructor(ort, facts, session) {
    [this.ort, this.facts, this.session] = [ort, facts, session];
    this.source = new PlainTokenizer(facts.source);
    this.target = new PlainTokenizer(facts.target);
  }

  /** The hypotheses of each text, best first: { text, score, finished }. Options: beam, length_penalty, max_length. */
  async answers(texts, options = {}) {
    const rows = texts.map((text) => [...this.source.encode(text).slice(0, this.facts.longest_source), END]);
    const width = Math.max(...rows.map((row) => row.length));
    const ids = new BigInt64Array(rows.length * width).fill(BigInt(PAD));
    rows.forEach((row, number) => ids.set(row.map(BigInt), number * width));
    const feeds = { source: new this.ort.Tensor("int64", ids, [rows.length, width]) };
    for (const [name, kind] of Object.entries(OPTIONS)) {
      const value = options[name] ?? this.facts.defaults[name];
      const data = kind === "int64" ? BigInt64Array.of(BigInt(value)) : Float32Array.of(value);
      feeds[name] = new this.ort.Tensor(kind, data, []);
    }
    const { answers, lengths, scores } = await this.session.run(feeds);
    const [, beam, longest] = answers.dims;
    return texts.map((_, row) =>
      Array.from({ length: beam }, (_, place) => row * beam + place)
        .filter((place) => lengths.data[place] > 0n) // a beam wider than the number of answers has empty places
        .map((place) => {
          const found = [...answers.data.slice(place * longest, place * longest + Number(lengths.data[place]))].map(Number);
          return { text: this.target.decode(found), score: scores.data[place], finished: found.at(-1) === END };
        }),
    );
  }
}
