import { testPass } from './pass.suite.js';

/** A replica is killed at every race point; those that live go on, and the contract holds. */
describe('Killed at a race point', () => testPass('killed', (lane, it) => lane.kill(it)));
