import type { LedgerCount } from '../scripted-agent/ledger/ledger.service.js';
import { expect } from './expect.js';
import type { Replica } from './replica.js';

/** What the ledger says of a task. @throws {DemoFailure} unless it was called and has accepted this often. */
export async function expectCount(replica: Replica, taskId: string, calls: number, accepted: number) {
  const count = await replica.ledger(taskId);
  const asExpected = count.dispatchAttempts === calls && count.acceptedEffects === accepted;
  expect(asExpected, `the ledger was ${inWords(count)}; expected were ${calls} and ${accepted}`);
  return count;
}

export function inWords({ dispatchAttempts, acceptedEffects }: LedgerCount): string {
  return `called ${dispatchAttempts === 1 ? 'once' : `${dispatchAttempts} times`}, accepted ${acceptedEffects}`;
}
