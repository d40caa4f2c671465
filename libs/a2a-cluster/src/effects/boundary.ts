import { AsyncLocalStorage } from 'node:async_hooks';

/** What of a turn is going on around this code. */
interface Boundary {
  turn: object;
  kind: 'effect' | 'transaction';
}

const storage = new AsyncLocalStorage<Boundary>();

/** Runs the work of an effect or of a transaction, so that what is called inside of it knows. */
export const insideBoundary = <T>(turn: object, kind: Boundary['kind'], run: () => T): T =>
  storage.run({ turn, kind }, run);

/** Whether this code runs inside of an effect or a transaction of this turn. */
export function boundaryOf(turn: object): Boundary['kind'] | undefined {
  const boundary = storage.getStore();
  return boundary?.turn === turn ? boundary.kind : undefined;
}
