import { type Case, CASES, titleOf } from './cases.js';
import type { Lane, Outcome } from './lane.js';
import { printOutcomes } from './outcomes.js';
import { type Pass, startPass, WHOLE_PASS_MS } from './pass.js';

/** A test for each case of a pass. `how`: what is done to the replica, as the printed list says it. */
export function testPass(how: string, play: (lane: Lane, it: Case) => Promise<Outcome>): void {
  let pass: Pass;

  // The cases are worked off in lanes beside each other; each test waits for its own.
  beforeAll(() => {
    pass = startPass(play);
  });

  afterAll(async () => {
    await printOutcomes(how, pass.outcomes);
    await pass.stop();
  }, WHOLE_PASS_MS);

  it.each(CASES.map((it) => [titleOf(it), it] as const))(
    '%s',
    async (_title, it) => {
      await pass.outcomes.get(it);
    },
    WHOLE_PASS_MS,
  );
}
