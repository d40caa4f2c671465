import type { Dump } from '../dump.js';
import type { Line } from '../recording.js';
import { acknowledged } from './acknowledged.invariant.js';
import { effects } from './effects.invariant.js';
import { ends } from './ends.invariant.js';
import { type History, historyOf, type Times } from './history.js';
import { leases } from './leases.invariant.js';
import { logs } from './log.invariant.js';
import { push } from './push.invariant.js';
import { service } from './service.invariant.js';
import { streams } from './streams.invariant.js';
import { turns } from './turns.invariant.js';
import type { Violation } from './violation.js';

const INVARIANTS: readonly ((history: History) => Violation[])[] = [
  turns,
  leases,
  logs,
  streams,
  ends,
  effects,
  acknowledged,
  push,
  service,
];

/** All promises that a run has broken, by what clients saw and by what the database holds. Reads nothing else. */
export function check(lines: readonly Line[], dump: Dump, times: Times): Violation[] {
  const history = historyOf(lines, dump, times);
  return INVARIANTS.flatMap((invariant) => invariant(history));
}
