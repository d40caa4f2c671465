import { randomUUID } from 'node:crypto';
import { TaskState } from '@a2a-js/sdk';
import type { EffectTurn, ReplayContract } from '../../libs/a2a-cluster/src/effects/effect-store.js';
import { LeaseLostError } from '../../libs/a2a-cluster/src/errors/lease-lost.error.js';
import type { ClaimedLease } from '../../libs/a2a-cluster/src/leases/lease-store.js';
import { errorOf } from './effects.fixture.js';
import { begin, lease, newScope, PAIRS, SHARING, type StorePair, StorePairs } from './store-contract.fixture.js';

const { TASK_STATE_WORKING: WORKING, TASK_STATE_COMPLETED: COMPLETED } = TaskState;

const pairs = new StorePairs();

describe.each(PAIRS)('The contract of recovery and effects: %s', (pair) => {
  let stores: StorePair;
  beforeEach(() => {
    stores = pairs.make(pair);
  });

  type Scope = ReturnType<typeof newScope>;

  const claim = async (scope: Scope, holder = 'B', endingAfterAttempts?: number): Promise<ClaimedLease | undefined> => {
    const ending = endingAfterAttempts === undefined ? {} : { endingAfterAttempts };
    return (await stores.leases.claim({ holder, ttlMs: 60_000, limit: 10, scope, ...ending }))[0];
  };

  /** A running task whose lease is expired, and the lease. */
  async function abandoned(kind: 'message' | 'cancel' = 'message') {
    const scope = newScope();
    const request = lease('A', kind);
    const made = await begin(stores.tasks, scope, WORKING, request);
    await stores.expire(scope);
    return { scope, request, taskNo: made.taskNo, generation: made.generation! };
  }

  /** Claims it, and begins a run under the claim. */
  async function run(scope: Scope, holder: string): Promise<ClaimedLease> {
    const claimed = (await claim(scope, holder))!;
    expect(await stores.leases.begin(claimed.generation)).toBe(true);
    return claimed;
  }

  it('O35 each run that begins is an attempt, and a claim says what was there', async () => {
    const { scope, request } = await abandoned();
    for (const attempt of [2, 3]) {
      expect(await run(scope, `holder ${attempt}`)).toMatchObject({
        attempt,
        turnId: request.turnId,
        lastHolder: attempt === 2 ? 'A' : 'holder 2',
        request: '{}',
      });
      expect(await claim(scope)).toBeUndefined();
      await stores.expire(scope);
    }
  });

  it('B12 a claim is no attempt, however often the lease is claimed', async () => {
    const { scope } = await abandoned();
    for (const holder of ['B', 'C', 'D', 'E']) {
      expect(await claim(scope, holder)).toMatchObject({ attempt: 2 });
      await stores.expire(scope);
    }
  });

  it('B12 a run is counted once, and only under the claim that it begins under', async () => {
    const { leases } = stores;
    const { scope, generation } = await abandoned();
    const first = await run(scope, 'B');
    expect(await leases.begin(first.generation)).toBe(true); // its answer was lost
    expect(await leases.begin(generation)).toBe(false);
    await stores.expire(scope);
    const second = (await claim(scope, 'C'))!;
    expect(second.attempt).toBe(3);
    expect(await leases.begin(first.generation)).toBe(false);
    await leases.release(second.generation);
    expect(await leases.begin(second.generation)).toBe(false);
  });

  it('O35 a run that is handed over goes on at once, in the same attempt', async () => {
    const { leases } = stores;
    const { scope } = await abandoned();
    const first = await run(scope, 'B');
    expect(await leases.handOver(first.generation, 0)).toBe(true);
    const next = await run(scope, 'C');
    expect(next).toMatchObject({ attempt: 2, lastHolder: null, turnId: first.turnId, admittedVersion: 0 });
    expect(next.generation).toBeGreaterThan(first.generation);
    await stores.expire(scope);
    expect(await claim(scope, 'D')).toMatchObject({ attempt: 3, lastHolder: 'C' });
  });

  it('B12 a claim that is handed over, as one that waits for its backoff, changes no attempt', async () => {
    const { leases } = stores;
    const { scope } = await abandoned();
    for (const holder of ['B', 'C', 'D']) {
      const claimed = (await claim(scope, holder))!;
      expect(claimed.attempt).toBe(2);
      expect(await leases.handOver(claimed.generation, 0)).toBe(true);
    }
  });

  it('I3 who has handed a lease over holds nothing any more', async () => {
    const { tasks, leases } = stores;
    const scope = newScope();
    const { generation, taskNo } = await begin(tasks, scope, WORKING, lease('A'));
    expect(await leases.handOver(generation!, 60_000)).toBe(true);
    expect(await leases.handOver(generation!, 0)).toBe(false);
    expect(await leases.renew('A', [generation!], 60_000)).toEqual([]);
    expect(await leases.release(generation!)).toBe(false);
    expect(await leases.inspect([generation!])).toEqual({ cancelRequested: [], lost: [generation] });
    const late = tasks.append({ taskNo, taskId: scope.taskId }, [], {
      expectedVersion: 1,
      commitId: randomUUID(),
      endsTurn: false,
      generation: generation!,
    });
    await expect(late).rejects.toMatchObject({ code: 'A2A_LEASE_LOST' });
    // Not before its time.
    expect(await claim(scope)).toBeUndefined();
    await stores.expire(scope);
    expect(await claim(scope)).toMatchObject({ attempt: 1, lastHolder: null });
  });

  it('O51 a hand-over keeps the request to cancel', async () => {
    const { tasks, leases } = stores;
    const scope = newScope();
    const { generation } = await begin(tasks, scope, WORKING, lease('A'));
    await tasks.requestCancel(scope, lease('B', 'cancel'));
    await leases.handOver(generation!, 0);
    expect(await claim(scope)).toMatchObject({ cancelRequested: true });
  });

  it('O35 a lease that is put back is as it was found, but for its generation', async () => {
    const { leases } = stores;
    const { scope } = await abandoned();
    const first = (await claim(scope))!;
    expect(await leases.putBack(first, 0)).toBe(true);
    expect(await leases.putBack(first, 0)).toBe(false);
    expect(await leases.renew('A', [first.generation], 60_000)).toEqual([]);
    const again = (await claim(scope))!;
    expect(again).toEqual({ ...first, generation: expect.any(Number) as number });
    expect(again.generation).toBeGreaterThan(first.generation);
    expect(await leases.putBack(again, 60_000)).toBe(true);
    expect(await claim(scope)).toBeUndefined();
  });

  it('B12 also where its run was counted already, and then did not take place', async () => {
    const { scope } = await abandoned();
    const first = await run(scope, 'B');
    expect(await stores.leases.putBack(first, 0)).toBe(true);
    expect(await claim(scope)).toEqual({ ...first, generation: expect.any(Number) as number });
  });

  it('I6 it runs out at its time though the holder that it is put back to goes on with another', async () => {
    const { tasks, leases } = stores;
    const { scope } = await abandoned();
    const other = (await begin(tasks, newScope(), WORKING, lease('A'))).generation!;
    const claimed = (await claim(scope))!;
    expect(await leases.renew('A', [other], 60_000)).toHaveLength(1);
    expect(await leases.putBack(claimed, 0)).toBe(true);
    expect(await leases.renew('A', [other], 60_000)).toHaveLength(1);
    expect(await claim(scope)).toMatchObject({ lastHolder: 'A' });
  });

  it('O35 the same for one that waited for a replica', async () => {
    const { leases } = stores;
    const { scope } = await abandoned();
    await leases.handOver((await claim(scope))!.generation, 0);
    const waiting = (await claim(scope))!;
    expect(waiting).toMatchObject({ attempt: 2, lastHolder: null });
    expect(await leases.putBack(waiting, 0)).toBe(true);
    expect(await claim(scope)).toEqual({ ...waiting, generation: expect.any(Number) as number });
  });

  it('O35 without a slot only leases are claimed whose turn is not run again', async () => {
    const { tasks, leases } = stores;
    const { scope } = await abandoned();
    expect(await claim(scope, 'B', 2)).toBeUndefined();
    const last = (await claim(scope, 'B', 1))!;
    expect(last.attempt).toBe(2);
    expect(await leases.begin(last.generation)).toBe(true);
    await stores.expire(scope);
    const [cancel, toCancel] = [await abandoned('cancel'), await abandoned()];
    await tasks.requestCancel(toCancel.scope, lease('B', 'cancel'));
    expect(await claim(cancel.scope, 'B', 2)).toMatchObject({ kind: 'cancel' });
    expect(await claim(toCancel.scope, 'B', 2)).toMatchObject({ cancelRequested: true });
    // Handed over in its third attempt: it has not been run more than twice, and goes on.
    const handed = await run(scope, 'C');
    expect(handed.attempt).toBe(3);
    await leases.handOver(handed.generation, 0);
    expect(await claim(scope, 'D', 3)).toBeUndefined();
    expect(await claim(scope, 'D', 2)).toMatchObject({ attempt: 3, lastHolder: null });
  });

  /** A turn of its own, and the lease it has. */
  async function turn(): Promise<EffectTurn & { scope: Scope }> {
    const scope = newScope();
    const request = lease('A');
    const { taskNo, generation } = await begin(stores.tasks, scope, WORKING, request);
    return { scope, taskNo, taskId: scope.taskId, turnId: request.turnId, attempt: 1, generation };
  }

  async function nextAttempt(of: EffectTurn & { scope: Scope }) {
    await stores.expire(of.scope);
    const { generation, attempt } = await run(of.scope, 'B');
    return { ...of, generation, attempt };
  }

  const dispatch = (of: EffectTurn, replay: ReplayContract = 'never', key = 'charge') =>
    stores.effects.dispatch(of, { key, replay });

  const recorded = (effect: object) => ({ outcome: 'recorded', effect: expect.objectContaining(effect) as object });

  it('I7 a new effect is dispatched; what is unresolved is told, oldest first', async () => {
    const { effects } = stores;
    const first = await turn();
    const before = Date.now() - 60_000;
    for (const key of ['b', 'a', 'settled']) {
      expect(await dispatch(first, 'never', key)).toEqual({ outcome: 'dispatched' });
    }
    await effects.settle(first, 'settled', { state: 'succeeded', result: null });
    const unresolved = await effects.unresolved(first.taskNo, first.turnId);
    const of = { state: 'dispatched', replay: 'never', attempt: 1, generation: first.generation, result: null };
    expect(unresolved).toMatchObject([
      { ...of, key: 'b' },
      { ...of, key: 'a' },
    ]);
    expect(unresolved[0]!.dispatchedAt.getTime()).toBeGreaterThan(before);
    expect(await effects.unresolved(first.taskNo, randomUUID())).toEqual([]);
  });

  it.each<[ReplayContract, ReplayContract, boolean]>([
    ['never', 'never', false],
    ['never', 'idempotent', false],
    ['never', 'reconcile', false],
    ['idempotent', 'never', false],
    ['idempotent', 'idempotent', true],
    ['idempotent', 'reconcile', false],
    ['reconcile', 'never', false],
    ['reconcile', 'idempotent', false],
    ['reconcile', 'reconcile', false],
  ])('O39 unresolved %s is dispatched again as %s: %s', async (before, after, permitted) => {
    const first = await turn();
    await dispatch(first, before);
    const second = await nextAttempt(first);
    const outcome = await dispatch(second, after);
    const found = { key: 'charge', state: 'dispatched', replay: before, attempt: 1, generation: first.generation };
    expect(outcome).toEqual(permitted ? { outcome: 'dispatched' } : recorded(found));
    const [unresolved] = await stores.effects.unresolved(first.taskNo, first.turnId);
    expect(unresolved).toMatchObject(permitted ? { attempt: 2, generation: second.generation } : found);
  });

  it('O39 what has succeeded is told with its result, what was not performed is dispatched', async () => {
    const { effects } = stores;
    const first = await turn();
    await dispatch(first);
    for (const state of ['not_performed', 'not_performed'] as const) await effects.settle(first, 'charge', { state });
    const second = await nextAttempt(first);
    expect(await dispatch(second, 'idempotent')).toEqual({ outcome: 'dispatched' });
    for (const result of ['{"id":7}', '{"id":7}']) {
      await effects.settle(second, 'charge', { state: 'succeeded', result });
    }
    const third = await nextAttempt(second);
    const found = { state: 'succeeded', replay: 'idempotent', attempt: 2, result: '{"id":7}' };
    expect(await dispatch(third, 'idempotent')).toEqual(recorded(found));
    expect(await effects.unresolved(first.taskNo, first.turnId)).toEqual([]);
  });

  it('I7 what has succeeded cannot be settled otherwise', async () => {
    const { effects } = stores;
    const first = await turn();
    await dispatch(first);
    await effects.settle(first, 'charge', { state: 'succeeded', result: '7' });
    const otherwise = effects.settle(first, 'charge', { state: 'not_performed' });
    expect(await errorOf(otherwise)).toBeInstanceOf(LeaseLostError);
    expect(await errorOf(effects.settle(first, 'unknown', { state: 'not_performed' }))).toBeInstanceOf(LeaseLostError);
    expect(await dispatch(first)).toEqual(recorded({ state: 'succeeded', result: '7' }));
  });

  it('I3 a stale owner dispatches and settles nothing', async () => {
    const { effects } = stores;
    const first = await turn();
    await dispatch(first);
    const second = await nextAttempt(first);
    expect(await errorOf(dispatch(first, 'never', 'late'))).toBeInstanceOf(LeaseLostError);
    const late = effects.settle(first, 'charge', { state: 'succeeded', result: '"late"' });
    expect(await errorOf(late)).toBeInstanceOf(LeaseLostError);
    expect(await effects.unresolved(first.taskNo, first.turnId)).toMatchObject([{ key: 'charge', attempt: 1 }]);
    expect(await dispatch(second, 'never', 'late')).toEqual({ outcome: 'dispatched' });
  });

  it('I7 a lease that has run out settles, and dispatches where the lease is in another place', async () => {
    const { effects } = stores;
    const first = await turn();
    await dispatch(first);
    await stores.expire(first.scope);
    await effects.settle(first, 'charge', { state: 'succeeded', result: null });
    const late = await dispatch(first, 'never', 'late').catch((error: unknown) => error);
    // The hole that remains there until somebody claims it; the turn's own deadline comes before.
    expect(late).toEqual(pair === SHARING ? expect.any(LeaseLostError) : { outcome: 'dispatched' });
  });

  it('O40 nothing is dispatched once a cancel was asked for, unless to clean up after it', async () => {
    const { tasks, effects } = stores;
    const first = await turn();
    await dispatch(first, 'never', 'before');
    await tasks.requestCancel(first.scope, lease('B', 'cancel'));
    expect(await dispatch(first)).toEqual({ outcome: 'canceled' });
    await effects.settle(first, 'before', { state: 'succeeded', result: null });
    expect(await effects.unresolved(first.taskNo, first.turnId)).toEqual([]);
    expect(await dispatch({ ...first, canceling: true }, 'never', 'refund')).toEqual({ outcome: 'dispatched' });
  });

  it('two turns of one task know nothing of each other, nor do two tasks', async () => {
    const [one, other] = [await turn(), await turn()];
    await dispatch(one);
    expect(await dispatch({ ...one, turnId: randomUUID() })).toEqual({ outcome: 'dispatched' });
    expect(await dispatch(other)).toEqual({ outcome: 'dispatched' });
    expect(await stores.effects.unresolved(one.taskNo, one.turnId)).toHaveLength(1);
  });

  it('without leases it is kept all the same', async () => {
    const scope = newScope();
    const { taskNo } = await begin(stores.tasks, scope, WORKING);
    const of = { taskNo, taskId: scope.taskId, turnId: randomUUID(), attempt: 1, generation: undefined };
    expect(await dispatch(of)).toEqual({ outcome: 'dispatched' });
    await stores.effects.settle(of, 'charge', { state: 'succeeded', result: '7' });
    expect(await dispatch(of)).toEqual(recorded({ state: 'succeeded', result: '7', generation: 0 }));
    if (pair === 'in-memory tasks and leases') return; // this ledger sees no tasks
    const ended = await begin(stores.tasks, newScope(), COMPLETED);
    expect(await errorOf(dispatch({ ...of, taskNo: ended.taskNo }))).toBeInstanceOf(LeaseLostError);
  });
});
