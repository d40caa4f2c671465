import type { Run, Seeded } from './green-run.fixture.js';

const INTERNAL = 'JsonRpcTransportError: Internal error; the agent has logged it.';

/** Breaks of what is expected of replicas after a fault of the database, and during one. */
export const SERVICE: readonly Seeded[] = [
  [
    'a replica that is stuck after the database was well',
    'service',
    /replica A did not do its work for 12000 ms after the database was well, until it did/,
    ({ lines }) => void lines.push({ kind: 'service', replica: 'A', from: 6_000, to: 18_000, at: 18_000 }),
  ],
  [
    'a replica that is stuck for good',
    'service',
    /replica B did not do its work for 40000 ms after the database was well, and it was given up/,
    ({ lines }) => void lines.push({ kind: 'service', replica: 'B', from: 6_000, at: 46_000 }),
  ],
  [
    'a replica that fills the server while a table is locked',
    'sessions',
    /replica B had 24 sessions while a table was locked; the bound is 23/,
    ({ lines }) => void lines.push({ kind: 'sessions', sessions: { A: 23, B: 24 }, at: 12_000 }),
  ],
  [
    'an internal error that answered a message which was accepted',
    'service',
    /send 3 .* was answered by an internal error, and its message m2 was accepted/,
    ({ lines }) => failCall(lines, 3, 5_600),
  ],
  [
    'an internal error that answered a look at a task',
    'service',
    /get 4 .* was answered by an internal error, and it only looked/,
    ({ lines }) => failCall(lines, 4, 5_710),
  ],
  [
    'an internal error after the event loop was blocked',
    'service',
    /send 3 .* was answered by an internal error/,
    ({ lines }) => {
      failCall(lines, 3, 5_600);
      fault(lines, 'blocking-request', 1_950, 5_500, 'A');
      lines.push({ kind: 'lag', who: 'A', from: 2_000, to: 5_400, at: 5_400 });
    },
  ],
];

/** The call was broken off by an internal error instead of what it was answered. */
export function failCall(lines: Run['lines'], call: number, at: number): void {
  const found = lines.findIndex((line) => line.kind === 'answer' && line.call === call);
  lines.splice(found, 1, { kind: 'end', call, how: 'broken', error: INTERNAL, at });
}

export function fault(lines: Run['lines'], name: string, from: number, to: number, replica?: string): void {
  const about = {
    kind: 'fault',
    number: lines.length,
    fault: name,
    ...(replica !== undefined && { replica }),
  } as const;
  lines.push({ ...about, phase: 'begins', at: from }, { ...about, phase: 'ends', at: to });
}
