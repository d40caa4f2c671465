import { type Case, titleOf } from './cases.js';
import type { Outcome } from './lane.js';

/** One line for each case, so that one that is missing is seen. */
export async function printOutcomes(how: string, outcomes: ReadonlyMap<Case, Promise<Outcome>>): Promise<void> {
  const lines = await Promise.all(
    [...outcomes].map(([it, outcome]) =>
      outcome.then(
        ({ states, quietMs }) => `${titleOf(it)}: ${states.join(', ') || 'no task'}, quiet after ${quietMs} ms`,
        () => `${titleOf(it)}: NOT HELD`,
      ),
    ),
  );
  process.stdout.write(`${lines.length} cases, ${how}\n${lines.map((line) => `  ${line}\n`).join('')}`);
}
