import { AsyncLocalStorage } from 'node:async_hooks';

/**
 * The effect or transaction of a turn that runs this code. It is dropped at its end, since sockets may keep the async
 * context.
 */
interface Boundary {
  turn: object | undefined;
  kind: 'effect' | 'transaction';
}

const storage = new AsyncLocalStorage<Boundary>();

/** Runs the work of an effect or of a transaction, so that what is called inside of it knows. */
export async function insideBoundary<T>(turn: object, kind: Boundary['kind'], run: () => Promise<T>): Promise<T> {
  const boundary: Boundary = { turn, kind };
  try {
    return await storage.run(boundary, run);
  } finally {
    boundary.turn = undefined;
  }
}

/** Whether this code runs inside of an effect or a transaction of this turn. */
export function boundaryOf(turn: object): Boundary['kind'] | undefined {
  const boundary = storage.getStore();
  return boundary?.turn === turn ? boundary.kind : undefined;
}
