import { endsVictim } from './cases.js';
import { testPass } from './pass.suite.js';

/** A replica stands still at every race point until its lease has run out, and goes on: it changes nothing more. */
describe('Frozen at a race point', () => testPass('frozen', (lane, it) => lane.freeze(it, endsVictim(it))));
