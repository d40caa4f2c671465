import { CASES, endsVictim, titleOf } from './cases.js';
import { printOutcomes } from './outcomes.js';
import { type Pass, startPass, WHOLE_PASS_MS } from './pass.js';

/** A replica stands still at every race point until its lease has run out, and goes on: it changes nothing more. */
describe('Frozen at a race point', () => {
  let pass: Pass;

  // The cases are worked off in lanes beside each other; each test waits for its own.
  beforeAll(() => {
    pass = startPass((lane, it) => lane.freeze(it, endsVictim(it)));
  });

  afterAll(async () => {
    await printOutcomes('frozen', pass.outcomes);
    await pass.stop();
  }, WHOLE_PASS_MS);

  it.each(CASES.map((it) => [titleOf(it), it] as const))(
    '%s',
    async (_title, it) => {
      await pass.outcomes.get(it);
    },
    WHOLE_PASS_MS,
  );
});
