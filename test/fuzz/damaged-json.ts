import fc from 'fast-check';

/** JSON that a careless or hostile client may write in the place of a value. */
const FRAGMENTS: string[] = [
  'null',
  'true',
  '[]',
  '{}',
  '""',
  '[null]',
  '[[]]',
  '{"":{}}',
  '"text"',
  '[{}]',
  '-1',
  '0',
  '-0',
  '1.5',
  '2147483648',
  '-2147483649',
  '4294967296',
  '9007199254740993',
  '1e308',
  '1e999',
  '-1E400',
  '123456789012345678901234567890',
  '0.1e-400',
  '"1e5"',
  '"NaN"',
  '"-1"',
  '"99999999999999999999"',
  '"\\u0000"',
  '"a\\u0000b"',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\uffff"',
  '"../../etc/passwd"',
  '"%00"',
  '"\' OR 1=1 --"',
  '"TASK_STATE_DREAMING"',
  '"ROLE_GHOST"',
  '"ROLE_UNSPECIFIED"',
  '-5',
  '77',
  '"TASK_STATE_COMPLETED"',
  '"2026-13-45T99:99:99Z"',
  '"0000-00-00T00:00:00Z"',
  '"+275760-09-13T00:00:00Z"',
  '"never"',
  '{"__proto__":{"polluted":true}}',
  '{"constructor":{"prototype":{"polluted":true}}}',
  '{"toString":1,"valueOf":2}',
  '{"hasOwnProperty":null}',
  '{"toJSON":"x"}',
  '{"length":-1}',
  '{"then":{}}',
  '{"$case":"text","value":{}}',
  '{"a":1,"a":2}',
  '{"text":"a","raw":"b","url":"c","data":{}}',
  '{"raw":"not base64 ***"}',
  '{"url":"javascript:x"}',
  '{"raw":"////"}',
  '{"data":{"deep":[[[[{}]]]]}}',
  '{"text":null}',
  '{"data":null}',
  '{"text":{"text":"a"}}',
  '['.repeat(60) + ']'.repeat(60),
  '{"a":'.repeat(3_000) + '1' + '}'.repeat(3_000),
  '['.repeat(50_000) + ']'.repeat(50_000),
  `[${'0,'.repeat(3_000)}0]`,
  JSON.stringify('x'.repeat(20_000)),
  JSON.stringify('\u{1f600}'.repeat(200)),
];

const KEYS = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'id',
  'tenant',
  'extra',
  '',
  '\u0000',
  '\ud800',
  '0',
];

type Path = (string | number)[];

/** Where the values of a document stand, the document itself included. */
function pathsOf(value: unknown, at: Path = []): Path[] {
  if (typeof value !== 'object' || value === null) return [at];
  const entries: [string | number, unknown][] = Array.isArray(value) ? [...value.entries()] : Object.entries(value);
  return [at, ...entries.flatMap(([key, inner]) => pathsOf(inner, [...at, key]))];
}

interface Damage {
  /** Which of the document's values, modulo how many there are. */
  where: number;
  how: 'replace' | 'remove' | 'add' | 'repeat';
  fragment: string;
  key: string;
}

const damage: fc.Arbitrary<Damage> = fc.record({
  where: fc.nat(1_000),
  how: fc.constantFrom('replace', 'replace', 'replace', 'remove', 'add', 'repeat'),
  fragment: fc.constantFrom(...FRAGMENTS),
  key: fc.constantFrom(...KEYS),
});

/** The text of a document with one value replaced, removed, given one more member, or written twice. */
function write(value: unknown, path: Path | undefined, chosen: Damage): string {
  const { how, fragment, key } = chosen;
  const here = path?.length === 0;
  if (here && how === 'replace') return fragment;
  const inner = (at: string | number): Path | undefined =>
    path !== undefined && path.length > 0 && path[0] === at ? path.slice(1) : undefined;
  const gone = (at: string | number): boolean => how === 'remove' && inner(at)?.length === 0;
  if (Array.isArray(value)) {
    const items = value.flatMap((item, at) => (gone(at) ? [] : [write(item, inner(at), chosen)]));
    return `[${[...items, ...(here && how === 'add' ? [fragment] : [])].join()}]`;
  }
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.entries(value).flatMap(([name, item]) => {
    if (gone(name)) return [];
    const member = `${JSON.stringify(name)}:${write(item, inner(name), chosen)}`;
    return how === 'repeat' && inner(name)?.length === 0 ? [member, `${JSON.stringify(name)}:${fragment}`] : [member];
  });
  return `{${[...members, ...(here && how === 'add' ? [`${JSON.stringify(key)}:${fragment}`] : [])].join()}}`;
}

/** The texts that a document becomes when one of its values is damaged. */
export const damaged = (document: unknown): fc.Arbitrary<string> =>
  damage.map((chosen) => {
    const paths = pathsOf(document);
    return write(document, paths[chosen.where % paths.length], chosen);
  });

/** Bytes that a text becomes on a bad line: cut off, a byte turned into another, or one more in between. */
export const garbled = (text: fc.Arbitrary<string | Buffer>): fc.Arbitrary<Buffer> =>
  fc
    .tuple(text, fc.constantFrom('cut', 'turn', 'insert'), fc.nat(), fc.integer({ min: 0, max: 255 }))
    .map(([written, how, where, byte]) => {
      const bytes = Buffer.from(written);
      const at = bytes.length === 0 ? 0 : where % bytes.length;
      if (how === 'cut') return bytes.subarray(0, at);
      if (how === 'turn') return Buffer.concat([bytes.subarray(0, at), Buffer.of(byte), bytes.subarray(at + 1)]);
      return Buffer.concat([bytes.subarray(0, at), Buffer.of(byte), bytes.subarray(at)]);
    });

export const fragment: fc.Arbitrary<string> = fc.constantFrom(...FRAGMENTS);
