import { AsyncLocalStorage } from 'node:async_hooks';
import { NoCurrentTurnError } from '../errors/no-current-turn.error.js';
import type { Turn } from './turn.js';

/** A turn as its async context holds it: let go of when it is over, since timers and sockets may keep the context. */
interface Entry {
  turn: Turn | undefined;
}

/** Carries the turn through everything that its executor and interceptors await. */
const storage = new AsyncLocalStorage<Entry>();

/** The turn that this code runs in. Throws {@link NoCurrentTurnError} outside of one, and after it is over. */
export function currentTurn(): Turn {
  const turn = storage.getStore()?.turn;
  if (!turn) throw new NoCurrentTurnError();
  return turn;
}

/** Runs a function, and all that it starts, in a turn, until that is over. */
export function runInTurn<T>(turn: Turn, over: Promise<unknown>, run: () => T): T {
  const entry: Entry = { turn };
  void over.then(() => (entry.turn = undefined));
  return storage.run(entry, run);
}
