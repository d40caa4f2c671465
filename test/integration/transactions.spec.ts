import { jest } from '@jest/globals';
import type { EntityManager } from 'typeorm';
import { DatabaseTimeoutError } from '../../libs/a2a-cluster/src/errors/database-timeout.error.js';
import { EffectResultError } from '../../libs/a2a-cluster/src/errors/effect-result.error.js';
import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import { TaskCanceledError } from '../../libs/a2a-cluster/src/errors/task-canceled.error.js';
import { TurnUsageError } from '../../libs/a2a-cluster/src/errors/turn-usage.error.js';
import { Deferred } from '../../tools/harness/wait.js';
import { BOOKINGS, booked, useBookings } from './bookings.fixture.js';
import { newScope } from './cluster.fixture.js';
import { effectRows, errorOf, nextAttempt } from './effects.fixture.js';
import { artifact, COMPLETED, message, status } from './events.fixture.js';
import { leaseRow, logOf, taskRow } from './rows.fixture.js';

const NEVER = { replay: 'never' } as const;

/** Work that books something. */
const booking = <T>(result: T, id = 'b1') =>
  jest.fn(async (manager: EntityManager): Promise<T> => {
    await manager.insert(BOOKINGS, { id, amount: 1 });
    return result;
  });

describe("Transactions of a turn in the app's own database", () => {
  const cluster = useBookings();

  it('what it writes is committed with its end, and seen by nobody before', async () => {
    const { turn } = await (await cluster.replica()).working();
    const result = await turn.transaction(async (manager) => {
      await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
      expect(await booked(cluster.db)).toEqual([]);
      return new Map([['any', 'result']]);
    });
    expect(result).toEqual(new Map([['any', 'result']]));
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('what it throws is rethrown, and nothing is written', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const mine = new Error('not enough');
    for (const options of [{}, { key: 'book' }]) {
      const work = async (manager: EntityManager): Promise<void> => {
        await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
        throw mine;
      };
      expect(await errorOf(turn.transaction(work, options))).toBe(mine);
    }
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
    expect(turn.signal.aborted).toBe(false);
    await turn.transaction(booking('done'), { key: 'book' });
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it.each([undefined, 'book'])('a failed statement that the work swallows is no success (key: %s)', async (key) => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const work = async (manager: EntityManager): Promise<string> => {
      await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
      await manager.query('SELECT nonsense').catch(() => undefined);
      return 'done';
    };
    // PostgreSQL answers such a COMMIT without an error, and rolls back.
    await expect(turn.transaction(work, key === undefined ? {} : { key })).rejects.toThrow('transaction is aborted');
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it("TypeORM's save and transaction inside commit nothing early, and roll back alone", async () => {
    const { turn } = await (await cluster.replica()).working();
    await turn.transaction(async (manager) => {
      await manager.save(BOOKINGS, { id: 'saved', amount: 1 });
      await manager.transaction((inner) => inner.insert(BOOKINGS, { id: 'inner', amount: 1 }));
      const failing = manager.transaction(async (inner) => {
        await inner.insert(BOOKINGS, { id: 'undone', amount: 1 });
        await inner.query('SELECT nonsense');
      });
      await expect(failing).rejects.toThrow('nonsense');
      await manager.getRepository(BOOKINGS).save({ id: 'after', amount: 1 });
      expect(await booked(cluster.db)).toEqual([]);
    });
    expect(await booked(cluster.db)).toEqual(['after', 'inner', 'saved']);
  });

  it.each(['returns', 'throws'])('work that %s with an inner transaction still open loses all of it', async (how) => {
    const { turn, taskNo, generation } = await (await cluster.replica()).working();
    const error = await errorOf(
      turn.transaction(async (manager) => {
        await manager.queryRunner!.startTransaction();
        await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
        if (how === 'throws') throw new Error('not enough');
      }),
    );
    expect(error.message).toContain(how === 'throws' ? 'not enough' : 'inner transaction');
    expect(await booked(cluster.db)).toEqual([]);
    // Nothing of it is left in the pool either: neither its lock nor its transaction.
    await cluster.db.query('SELECT FROM a2a_task_leases WHERE generation = $1 FOR UPDATE NOWAIT', [generation]);
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation });
    expect(
      await cluster.db.query(
        "SELECT query FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in transaction%'",
      ),
    ).toEqual([]);
  });

  it('before the first event of a new task it begins the task and its lease', async () => {
    const a = await cluster.replica();
    const turn = await a.startTurn(newScope(), message());
    await turn.transaction(booking('done'), { key: 'book' });
    const { taskNo } = turn.loop!.key!;
    expect(await taskRow(cluster.db, taskNo)).toMatchObject({ state: 'SUBMITTED', version: 1 });
    expect(await leaseRow(cluster.db, taskNo)).toMatchObject({ generation: turn.fencingToken });
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('with a key it happens once over all attempts, and each is given what the first one returned', async () => {
    const first = await (await cluster.replica()).working();
    const work = booking({ id: 7, note: 'x\0' });
    expect(await first.turn.transaction(work, { key: 'book' })).toEqual({ id: 7, note: 'x\0' });
    expect(await first.turn.transaction(work, { key: 'book' })).toEqual({ id: 7, note: 'x\0' });
    const second = await nextAttempt(cluster, first);
    expect(await second.turn.transaction(work, { key: 'book' })).toEqual({ id: 7, note: 'x\0' });
    expect(work).toHaveBeenCalledTimes(1);
    expect(await effectRows(cluster.db, first.taskNo)).toEqual({
      book: {
        state: 'succeeded',
        replay: 'transaction',
        attempt: 1,
        generation: first.generation,
        settled: true,
        result: '{"id":7,"note":"x\\u0000"}',
      },
    });
  });

  it('without a key each call is one of its own', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    await turn.transaction(booking('done', 'b1'));
    await turn.transaction(booking('done', 'b2'));
    expect(await booked(cluster.db)).toEqual(['b1', 'b2']);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it('two at once with one key: one does it, the other waits and returns the same', async () => {
    const { turn } = await (await cluster.replica()).working();
    const work = booking('done');
    const both = [turn.transaction(work, { key: 'book' }), turn.transaction(work, { key: 'book' })];
    expect(await Promise.all(both)).toEqual(['done', 'done']);
    expect(work).toHaveBeenCalledTimes(1);
  });

  it.each([
    ['a Date', { when: new Date() }, 'result.when'],
    ['a BigInt', 7n, 'result'],
    ['a Map', [new Map()], 'result[0]'],
  ])('with a key, a result with %s rolls it back', async (_name, result, path) => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const error = await errorOf(turn.transaction(booking<unknown>(result), { key: 'book' }));
    expect(error).toBeInstanceOf(EffectResultError);
    expect(error).toMatchObject({ key: 'book', path });
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
  });

  it("a key that is an action's is refused, and the other way round", async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    await turn.effect('action', NEVER, () => 'done');
    await errorOf(turn.effect('lost action', NEVER, () => Promise.reject(new Error('lost'))));
    await turn.transaction(booking('done'), { key: 'work' });
    const before = await effectRows(cluster.db, taskNo);
    const [work, action] = [booking('again', 'b2'), jest.fn(() => 'again')];
    for (const key of ['action', 'lost action']) {
      const error = await errorOf(turn.transaction(work, { key }));
      expect(error).toBeInstanceOf(TurnUsageError);
      expect(error.message).toBe(`'${key}' is the key of an effect of this turn, not of a transaction.`);
    }
    for (const replay of ['never', 'idempotent', () => ({ outcome: 'not_performed' as const })] as const) {
      const error = await errorOf(turn.effect('work', { replay }, action));
      expect(error).toBeInstanceOf(TurnUsageError);
      expect(error.message).toBe("'work' is the key of a transaction of this turn, not of an effect.");
    }
    expect([work.mock.calls, action.mock.calls]).toEqual([[], []]);
    expect(await effectRows(cluster.db, taskNo)).toEqual(before);
    expect(await booked(cluster.db)).toEqual(['b1']);
  });

  it('flush inside throws; what is published inside is stored, whether or not it is rolled back', async () => {
    const { scope, loop, turn, taskNo } = await (await cluster.replica()).working();
    const error = await errorOf(
      turn.transaction(async (manager) => {
        await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
        loop.add(artifact(scope, 'a1'));
        await turn.flush();
      }),
    );
    expect(error).toBeInstanceOf(TurnUsageError);
    expect(error.message).toContain('turn.flush() was called inside of a transaction');
    await turn.flush();
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'artifact a1']);
    expect(await booked(cluster.db)).toEqual([]);
  });

  it('an end that is published inside of it is stored once it is through', async () => {
    const { scope, loop, turn, taskNo } = await (await cluster.replica()).working();
    await turn.transaction(async (manager) => {
      loop.add(status(scope, COMPLETED));
      await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
    });
    await turn.flush();
    expect(await booked(cluster.db)).toEqual(['b1']);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status COMPLETED']);
    expect(await leaseRow(cluster.db, taskNo)).toBeUndefined();
  });

  it('O40 a turn that is stopped rolls it back at once, and its connection is not used again', async () => {
    const { turn } = await (await cluster.replica()).working();
    const [inside, goOn] = [new Deferred(), new Deferred()];
    let late: Promise<Error> | undefined;
    const outcome = errorOf(
      turn.transaction(async (manager) => {
        await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
        inside.resolve();
        await goOn.promise;
        late = errorOf(manager.insert(BOOKINGS, { id: 'b2', amount: 1 }));
      }),
    );
    await inside.promise;
    const stopped = new TaskCanceledError(turn.taskId);
    turn.abort(stopped);
    expect(await outcome).toBe(stopped);
    goOn.resolve();
    await new Promise(setImmediate);
    expect(await late).toBeInstanceOf(Error);
    expect(await booked(cluster.db)).toEqual([]);
  });

  it('O40 a cancel that was asked for elsewhere: the work is not begun', async () => {
    const [a, b] = [await cluster.replica(), await cluster.replica()];
    const { scope, turn } = await a.working();
    await b.tasks.requestCancel(scope, b.leaseRequest('cancel'));
    const work = booking('done');
    expect(await errorOf(turn.transaction(work))).toBeInstanceOf(TaskCanceledError);
    expect(work).not.toHaveBeenCalled();
  });

  it('timeoutMs bounds the whole of it, not each statement alone', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const work = async (manager: EntityManager): Promise<void> => {
      await manager.insert(BOOKINGS, { id: 'b1', amount: 1 });
      for (;;) await manager.query('SELECT pg_sleep(0.02)');
    };
    const error = await errorOf(turn.transaction(work, { timeoutMs: 200, key: 'book' }));
    expect(error).toEqual(new DatabaseTimeoutError(200));
    expect(await booked(cluster.db)).toEqual([]);
    expect(await effectRows(cluster.db, taskNo)).toEqual({});
    expect(await turn.transaction(booking('done'), { timeoutMs: 10_000, key: 'book' })).toBe('done');
  });

  it.each([0, -1, NaN, 2 ** 31, '100', null])('timeoutMs: %p is refused', async (timeoutMs) => {
    const { turn } = await (await cluster.replica()).working();
    const work = booking('done');
    const error = await errorOf(turn.transaction(work, { timeoutMs: timeoutMs as number }));
    expect(error).toBeInstanceOf(TurnUsageError);
    expect(error.message).toContain(`timeoutMs is ${typeof timeoutMs === 'string' ? "'100'" : String(timeoutMs)}`);
    expect(work).not.toHaveBeenCalled();
  });

  it('without leases it needs a task that has not ended', async () => {
    const a = await cluster.replica({ leased: false });
    const turn = await a.startTurn(newScope(), message());
    expect(await turn.transaction(booking('done'), { key: 'book' })).toBe('done');
    const { taskNo } = turn.loop!.key!;
    await cluster.db.query("UPDATE a2a_tasks SET state = 'TASK_STATE_CANCELED' WHERE task_no = $1", [taskNo]);
    expect(await errorOf(turn.transaction(booking('late', 'b2')))).toBeInstanceOf(LeaseLostError);
    expect(await booked(cluster.db)).toEqual(['b1']);
  });
});
