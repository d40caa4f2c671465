import { createHash } from 'node:crypto';
import type { EffectRow } from '../dump.js';
import type { History, TaskHistory } from './history.js';
import type { Violation } from './violation.js';

/** What the ledger counts for one key: how often it was called, and what it has entered. */
interface Counted {
  dispatches: number;
  /** Entries on the customer's account: what was accepted. */
  accepted: number;
  /** Of all entries: nothing after a transfer, which makes one on either account. */
  balance: number;
}

const NOTHING: Readonly<Counted> = { dispatches: 0, accepted: 0, balance: 0 };

/**
 * I7: the ledger, which knows nothing of turns, was called as often as each effect's contract permits. `never`: once at
 * most. `idempotent`: entered once. A transaction: entered exactly if the record says so, once, with both halves.
 * `reconcile` may be entered twice where a process stood still between its question and its call.
 */
export function effects(history: History): Violation[] {
  const counted = countedIn(history);
  const known = new Set<string>();
  const violations = history.dump.effects.flatMap((effect) => {
    const key = idempotencyKey(effect);
    known.add(key);
    const task = history.byNo.get(effect.taskNo);
    return broken(effect, counted.get(key) ?? NOTHING).map((text): Violation => ({
      invariant: 'I7',
      ...(task && { taskId: task.row.taskId }),
      text: `${effect.replay} '${effect.key}' (${effect.state}, attempt ${effect.attempt}) ${text}`,
    }));
  });
  return [...violations, ...unrecorded(history, known)];
}

function broken({ replay, state }: EffectRow, { dispatches, accepted, balance }: Counted): string[] {
  const broken: string[] = [];
  if (replay === 'never' && dispatches > 1) broken.push(`was dispatched ${dispatches} times`);
  if (replay === 'idempotent' && accepted > 1) broken.push(`was accepted ${accepted} times`);
  if (replay === 'transaction' && accepted !== 1) broken.push(`is on record, and was committed ${accepted} times`);
  if (replay === 'transaction' && balance !== 0) broken.push(`was committed by halves: ${balance} are missing`);
  if (state === 'succeeded' && accepted === 0) broken.push('succeeded, and the ledger knows nothing of it');
  return broken;
}

/** What reached the ledger without a record of it: a charge is recorded before, a transfer in its own transaction. */
function unrecorded({ dump, tasks }: History, known: ReadonlySet<string>): Violation[] {
  const reported = new Set<string>();
  return dump.entries.flatMap(({ taskId, key }): Violation[] => {
    if (known.has(key) || reported.has(key)) return [];
    reported.add(key);
    const task: TaskHistory | undefined = tasks.get(taskId);
    return [
      { invariant: 'I7', ...(task && { taskId }), text: `the ledger has entries of key ${key}, the record none` },
    ];
  });
}

function countedIn({ dump }: History): Map<string, Counted> {
  const counted = new Map<string, Counted>();
  const of = (key: string): Counted => {
    const found = counted.get(key) ?? { ...NOTHING };
    counted.set(key, found);
    return found;
  };
  for (const { key } of dump.dispatches) of(key).dispatches += 1;
  for (const { key, account, amount } of dump.entries) {
    if (account === 'customer') of(key).accepted += 1;
    of(key).balance += amount;
  }
  return counted;
}

/** As the library documents it: the same in every attempt of a turn. */
const idempotencyKey = ({ turnId, key }: EffectRow): string =>
  createHash('sha256').update(`${turnId}\n${key}`).digest('base64url');
