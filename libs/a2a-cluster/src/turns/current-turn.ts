import { AsyncLocalStorage } from 'node:async_hooks';
import { NoCurrentTurnError } from '../errors/no-current-turn.error.js';
import type { Turn } from './turn.js';

/** Carries the turn through everything that its executor and interceptors await. */
const storage = new AsyncLocalStorage<Turn>();

/** The turn that this code runs in. Throws {@link NoCurrentTurnError} outside of one. */
export function currentTurn(): Turn {
  const turn = storage.getStore();
  if (!turn) throw new NoCurrentTurnError();
  return turn;
}

/** Runs a function, and all that it starts, in a turn. */
export const runInTurn = <T>(turn: Turn, run: () => T): T => storage.run(turn, run);
