import { jest } from '@jest/globals';
import type { EffectCall, EffectContract } from '../../libs/a2a-cluster/src/effects/turn-effects.js';
import { EFFECTS_METADATA_KEY } from '../../libs/a2a-cluster/src/effects/unresolved-effects.js';
import { EffectNotPerformedError } from '../../libs/a2a-cluster/src/errors/effect-not-performed.error.js';
import { EffectUnresolvedError } from '../../libs/a2a-cluster/src/errors/effect-unresolved.error.js';
import { Deferred } from '../../tools/harness/wait.js';
import { type RunningTurn, useCluster } from './cluster.fixture.js';
import { effectRows, errorOf, nextAttempt } from './effects.fixture.js';
import { textOf } from './events.fixture.js';
import { expireLeases, logOf } from './rows.fixture.js';

const NEVER = { replay: 'never' } as const;
const IDEMPOTENT = { replay: 'idempotent' } as const;

/** An outside action, and how it was called. */
const action = <T>(run: (call: EffectCall) => T) => jest.fn((call: EffectCall) => Promise.resolve(run(call)));

describe('Outside actions of a turn', () => {
  const cluster = useCluster();

  /** A turn with an action that the outside may have accepted, or not. */
  async function withUnresolved<T>(contract: EffectContract<T>, key = 'charge'): Promise<RunningTurn> {
    const running = await (await cluster.replica()).working();
    const lost = action(() => Promise.reject(new Error('no answer')));
    await expect(running.turn.effect(key, contract as never, lost)).rejects.toThrow('no answer');
    expect(lost).toHaveBeenCalledTimes(1);
    return running;
  }

  it('O39 I7 an action is recorded as dispatched before it is called, and with its result after', async () => {
    const { turn, taskNo, generation } = await (await cluster.replica()).working();
    const of = { replay: 'never', attempt: 1, generation };
    let call: EffectCall | undefined;
    const result = await turn.effect('charge', NEVER, async (given) => {
      call = given;
      expect(await effectRows(cluster.db, taskNo)).toEqual({
        charge: { ...of, state: 'dispatched', result: null, settled: false },
      });
      return { id: 7, by: ['ann'] };
    });
    expect(result).toEqual({ id: 7, by: ['ann'] });
    expect(await effectRows(cluster.db, taskNo)).toEqual({
      charge: { ...of, state: 'succeeded', result: '{"id":7,"by":["ann"]}', settled: true },
    });
    expect(call).toEqual({
      idempotencyKey: turn.idempotencyKey('charge'),
      fencingToken: generation,
      signal: turn.signal,
    });
    expect(call!.idempotencyKey).toMatch(/^[\w-]{43}$/);
  });

  it.each([
    ['an object', { a: [1, null, 'x\0\ud800'] }],
    ['null', null],
    ['false', false],
    ['nothing', undefined],
  ])('O39 a later call returns what was recorded, in this attempt and the next: %s', async (_name, value) => {
    const first = await (await cluster.replica()).working();
    const run = action(() => value);
    expect(await first.turn.effect('charge', NEVER, run)).toEqual(value);
    expect(await first.turn.effect('charge', NEVER, run)).toEqual(value);
    const second = await nextAttempt(cluster, first);
    expect([second.turn.attempt, second.turn.turnId]).toEqual([2, first.turn.turnId]);
    for (const contract of [NEVER, IDEMPOTENT, { replay: () => ({ outcome: 'not_performed' as const }) }]) {
      expect(await second.turn.effect<unknown>('charge', contract, run)).toEqual(value);
    }
    const third = await nextAttempt(cluster, second);
    expect(await third.turn.effect('charge', NEVER, run)).toEqual(value);
    expect(run).toHaveBeenCalledTimes(1);
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { attempt: 1, generation: first.generation, state: 'succeeded' },
    });
  });

  it('O39 each key is an action of its own, with a key of its own for the outside', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const key = action(({ idempotencyKey }) => idempotencyKey);
    const keys = await Promise.all(['one', 'two', ' one', 'ONE'].map((name) => turn.effect(name, NEVER, key)));
    expect(new Set(keys).size).toBe(4);
    expect(Object.keys(await effectRows(cluster.db, taskNo)).sort()).toEqual([' one', 'ONE', 'one', 'two']);
    const other = await (await cluster.replica()).working();
    expect(await other.turn.effect('one', NEVER, key)).not.toBe(keys[0]);
  });

  it('O58 what the call throws leaves the outcome unknown: never dispatched again, now or in the next attempt', async () => {
    const first = await withUnresolved(NEVER);
    const run = action(() => 'again');
    const expected = { taskId: first.scope.taskId, key: 'charge', replay: 'never', attempt: 1 };
    const error = await errorOf(first.turn.effect('charge', NEVER, run));
    expect(error).toBeInstanceOf(EffectUnresolvedError);
    expect(error).toMatchObject({ ...expected, dispatchedAt: expect.any(Date) as Date });
    const second = await nextAttempt(cluster, first);
    expect(await errorOf(second.turn.effect('charge', NEVER, run))).toMatchObject({ ...expected, name: error.name });
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({ charge: { state: 'dispatched', attempt: 1 } });
  });

  it('O58 the same where it throws before it returns a promise', async () => {
    const { turn, taskNo } = await (await cluster.replica()).working();
    const sync = (): never => {
      throw new Error('at once');
    };
    await expect(turn.effect('charge', NEVER, sync)).rejects.toThrow('at once');
    expect(await errorOf(turn.effect('charge', NEVER, sync))).toBeInstanceOf(EffectUnresolvedError);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched' } });
  });

  it('O39 idempotent: dispatched again with the same key and the fencing token of the new lease', async () => {
    const first = await withUnresolved(IDEMPOTENT);
    const run = action((call) => call);
    const second = await nextAttempt(cluster, first);
    await expect(
      second.turn.effect('charge', IDEMPOTENT, (call) => (run(call), Promise.reject(new Error('lost again')))),
    ).rejects.toThrow('lost again');
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { state: 'dispatched', attempt: 2, generation: second.generation },
    });
    const third = await nextAttempt(cluster, second);
    const token = await third.turn.effect('charge', IDEMPOTENT, (call) => (void run(call), call.fencingToken));
    expect(run.mock.calls.map(([call]) => call.fencingToken)).toEqual([second.generation, third.generation]);
    expect(third.generation).toBeGreaterThan(second.generation);
    for (const [call] of run.mock.calls) expect(call.idempotencyKey).toBe(first.turn.idempotencyKey('charge'));
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { state: 'succeeded', attempt: 3, generation: third.generation, result: String(token), settled: true },
    });
  });

  it('O39 idempotent: within one attempt too', async () => {
    const { turn } = await withUnresolved(IDEMPOTENT);
    const run = action(() => 'done');
    expect(await turn.effect('charge', IDEMPOTENT, run)).toBe('done');
    expect(await turn.effect('charge', IDEMPOTENT, run)).toBe('done');
    expect(run).toHaveBeenCalledTimes(1);
  });

  const reconcile = { replay: () => ({ outcome: 'unknown' as const }) };
  it.each([
    ['never', 'idempotent', NEVER, IDEMPOTENT],
    ['reconcile', 'idempotent', reconcile, IDEMPOTENT],
    ['idempotent', 'never', IDEMPOTENT, NEVER],
    ['reconcile', 'never', reconcile, NEVER],
  ] as const)(
    'I7 what was dispatched as %s is not dispatched again as %s',
    async (recorded, _other, contract, other) => {
      const first = await withUnresolved(contract as EffectContract<unknown>);
      const run = action(() => 'again');
      expect(await errorOf(first.turn.effect('charge', other, run))).toMatchObject({ replay: recorded });
      const second = await nextAttempt(cluster, first);
      expect(await errorOf(second.turn.effect('charge', other, run))).toBeInstanceOf(EffectUnresolvedError);
      expect(run).not.toHaveBeenCalled();
      expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({ charge: { replay: recorded, attempt: 1 } });
    },
  );

  it.each([1, 2])('O39 reconcile in attempt %s: succeeded is recorded, with what it found', async (attempt) => {
    const first = await withUnresolved(attempt === 1 ? reconcile : NEVER);
    const running = attempt === 1 ? first : await nextAttempt(cluster, first);
    const replay = jest.fn(() => ({ outcome: 'succeeded' as const, result: { id: 7 } }));
    const run = action(() => ({ id: 8 }));
    expect(await running.turn.effect('charge', { replay }, run)).toEqual({ id: 7 });
    expect(await running.turn.effect('charge', { replay }, run)).toEqual({ id: 7 });
    expect(run).not.toHaveBeenCalled();
    expect(replay).toHaveBeenCalledTimes(1);
    expect(replay.mock.calls[0]).toEqual([
      {
        key: 'charge',
        attempt: 1,
        dispatchedAt: expect.any(Date) as Date,
        signal: running.turn.signal,
        idempotencyKey: first.turn.idempotencyKey('charge'),
        fencingToken: running.generation,
      },
    ]);
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { state: 'succeeded', result: '{"id":7}', settled: true },
    });
  });

  it.each([1, 2])('O39 reconcile in attempt %s: not performed is dispatched, under this lease', async (attempt) => {
    const first = await withUnresolved(reconcile);
    const running = attempt === 1 ? first : await nextAttempt(cluster, first);
    const run = action(() => 'done');
    const replay = jest.fn(async () => {
      expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({ charge: { state: 'dispatched', attempt: 1 } });
      return { outcome: 'not_performed' as const };
    });
    expect(await running.turn.effect('charge', { replay }, run)).toBe('done');
    expect([replay.mock.calls.length, run.mock.calls.length]).toEqual([1, 1]);
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { state: 'succeeded', replay: 'reconcile', attempt, generation: running.generation },
    });
  });

  it('O39 reconcile: not performed, then lost once more, then asked once more', async () => {
    const first = await withUnresolved(reconcile);
    const replay = jest.fn(() => ({ outcome: 'not_performed' as const }));
    const run = action(() => Promise.reject<string>(new Error('lost again')));
    for (const times of [1, 2]) {
      await expect(first.turn.effect('charge', { replay }, run)).rejects.toThrow('lost again');
      expect([replay.mock.calls.length, run.mock.calls.length]).toEqual([times, times]);
    }
  });

  it.each([
    ['unknown', () => ({ outcome: 'unknown' as const }), undefined],
    ['a throw', () => Promise.reject(new Error('the outside is away')), 'the outside is away'],
    ['EffectNotPerformedError', () => Promise.reject(new EffectNotPerformedError()), expect.any(String) as string],
  ])('O39 reconcile: %s leaves it unresolved, and nothing is dispatched', async (_name, replay, cause) => {
    const first = await withUnresolved(reconcile);
    const run = action(() => 'again');
    for (const attempt of [1, 2]) {
      const running = attempt === 1 ? first : await nextAttempt(cluster, first);
      const error = await errorOf(running.turn.effect('charge', { replay }, run));
      expect(error).toBeInstanceOf(EffectUnresolvedError);
      expect((error.cause as Error | undefined)?.message).toEqual(cause);
    }
    expect(run).not.toHaveBeenCalled();
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({ charge: { state: 'dispatched', attempt: 1 } });
  });

  it('EffectNotPerformedError: recorded as not performed, rethrown, and dispatched again whatever the contract', async () => {
    const first = await (await cluster.replica()).working();
    const refused = new EffectNotPerformedError('refused');
    const run = jest.fn<() => Promise<string>>().mockRejectedValueOnce(refused).mockRejectedValueOnce(refused);
    expect(await errorOf(first.turn.effect('charge', NEVER, run))).toBe(refused);
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { state: 'not_performed', result: null, settled: true },
    });
    expect(await errorOf(first.turn.effect('charge', NEVER, run))).toBe(refused);
    const second = await nextAttempt(cluster, first);
    expect(await second.turn.effect('charge', NEVER, run.mockResolvedValue('done'))).toBe('done');
    expect(run).toHaveBeenCalledTimes(3);
    expect(await effectRows(cluster.db, first.taskNo)).toMatchObject({
      charge: { state: 'succeeded', attempt: 2, generation: second.generation },
    });
  });

  it('O37 the replica dies within the call: FAILED, dispatched once, the status names the action', async () => {
    const b = await cluster.replica();
    const { scope, turn, taskNo } = await (await cluster.replica()).working();
    const [accepted, answer] = [new Deferred(), new Deferred<string>()];
    const run = action(() => (accepted.resolve(), answer.promise));
    await turn.effect('settled before', NEVER, () => 'done');
    const late = errorOf(turn.effect('charge', NEVER, run));
    await accepted.promise;
    await expireLeases(cluster.db, taskNo);
    expect(await b.sweeper.runOnce()).toMatchObject({ claimed: 1, failed: 1 });
    answer.resolve('it was only frozen after all');
    expect(await late).toMatchObject({ code: 'A2A_LEASE_LOST' });
    const { status } = (await b.tasks.find(scope))!.task;
    expect(status!.message!.metadata![EFFECTS_METADATA_KEY]).toEqual([
      {
        key: 'charge',
        replay: 'never',
        attempt: 1,
        idempotencyKey: turn.idempotencyKey('charge'),
        dispatchedAt: expect.stringMatching(/^\d{4}-.*Z$/) as string,
      },
    ]);
    expect(textOf(status!.message!)).toContain("is not known: 'charge' (dispatched at ");
    expect(run).toHaveBeenCalledTimes(1);
    expect(await logOf(cluster.db, taskNo)).toEqual(['task WORKING', 'status FAILED']);
    expect(await effectRows(cluster.db, taskNo)).toMatchObject({ charge: { state: 'dispatched' } });
  });
});
