import { createHash } from 'node:crypto';
import { inspect } from 'node:util';
import { StoreUnavailableError } from '../errors/store-unavailable.error.js';
import { within } from '../async/late-timer.js';
import { whileUnavailable } from '../async/while-unavailable.js';
import { EffectNotPerformedError } from '../errors/effect-not-performed.error.js';
import { EffectUnresolvedError } from '../errors/effect-unresolved.error.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import { TurnUsageError } from '../errors/turn-usage.error.js';
import { racePoint } from '../race-points/race-points.js';
import { boundaryOf, insideBoundary } from './boundary.js';
import type { Dispatch, EffectStore, EffectTurn, RecordedEffect, ReplayContract, Settlement } from './effect-store.js';
import { decodeResult, encodeResult } from './effect-result.js';

/** The argument of an outside action. */
export interface EffectCall {
  /** The same in every attempt of the turn: for services that recognise a repeated request by such a key. */
  readonly idempotencyKey: string;
  /** The generation of the turn's lease: for resources that refuse what comes with an older one. */
  readonly fencingToken: number | undefined;
  /** Aborts when the turn is stopped. */
  readonly signal: AbortSignal;
}

/** A reconciler's finding about an action that was dispatched before. */
export type EffectOutcome<T> =
  { outcome: 'succeeded'; result: T } | { outcome: 'not_performed' } | { outcome: 'unknown' };

/** An action whose outcome is not known. */
export interface DispatchedEffect extends EffectCall {
  readonly key: string;
  /** The attempt that dispatched it. */
  readonly attempt: number;
  /** By the database's clock. */
  readonly dispatchedAt: Date;
}

/** Asks the outside whether an action took place. What it throws leaves the outcome unknown. */
export type EffectReconciler<T> = (effect: DispatchedEffect) => Promise<EffectOutcome<T>> | EffectOutcome<T>;

/** How an action may be repeated if its outcome is not known. */
export interface EffectContract<T> {
  /**
   * `never`: nothing; the turn ends FAILED and names it. `idempotent`: dispatch it again, with the same key. A function:
   * it is asked what became of the action.
   */
  replay: 'never' | 'idempotent' | EffectReconciler<T>;
}

/** The part of a turn that effects need. */
export interface EffectHost {
  readonly taskId: string;
  readonly turnId: string;
  readonly signal: AbortSignal;
  /** Monotonic time until which the lease may be relied on. */
  readonly deadline: number;
  /** For how long a write is tried again through trouble with the database, in ms. */
  readonly retryMs: number;
  /** Makes sure that the task and the lease exist and that all that was published is stored. */
  begin(): Promise<EffectTurn>;
  /** Whether the lease can be relied on, once it is known whether somebody else has claimed it. */
  confirmLease(): Promise<boolean>;
  assertHeld(): void;
  /** Somebody has asked that the task be canceled. Throws. */
  canceled(): never;
}

const MAX_KEY_LENGTH = 200;

/** UTF-8 has no half of a surrogate pair: all of them would be stored, and hashed, as one and the same character. */
const UNSTORABLE = /[\0\p{Surrogate}]/u;

/** Outside actions of one turn: recorded before they are dispatched, and with their outcome. */
export class TurnEffects {
  /** Keys of actions that are under way. */
  private readonly inFlight = new Set<string>();
  /** Keys of actions that were really called in this attempt, and whose outcome was not `not_performed`. */
  private readonly called = new Set<string>();

  private askedFor = false;
  private closed = false;
  private whenIdle: () => void = () => undefined;

  constructor(private readonly store: EffectStore) {}

  /** Whether any was asked for in this attempt. */
  get used(): boolean {
    return this.askedFor;
  }

  async effect<T>(
    host: EffectHost,
    key: string,
    contract: EffectContract<T>,
    run: (call: EffectCall) => Promise<T> | T,
  ): Promise<T> {
    checkKey(host.taskId, key);
    const replay = contractOf(host.taskId, key, contract);
    refuseInside(host, `effect('${key}')`);
    if (this.inFlight.has(key)) {
      throw new TurnUsageError(host.taskId, `turn.effect('${key}') is under way already: await it before the next.`);
    }
    if (this.closed) {
      throw new TurnUsageError(host.taskId, `The turn is ending: turn.effect('${key}') comes too late.`);
    }
    this.inFlight.add(key);
    this.askedFor = true;
    try {
      return await this.perform(host, key, replay, contract, run);
    } finally {
      this.inFlight.delete(key);
      if (this.inFlight.size === 0) this.whenIdle();
    }
  }

  /** Begins none any more; resolves when none is under way, or after `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    this.closed = true;
    if (this.inFlight.size === 0) return;
    await within(timeoutMs, new Promise<void>((resolve) => (this.whenIdle = resolve)));
  }

  private async perform<T>(
    host: EffectHost,
    key: string,
    replay: ReplayContract,
    contract: EffectContract<T>,
    run: (call: EffectCall) => Promise<T> | T,
  ): Promise<T> {
    for (;;) {
      const turn = await host.begin();
      const recorded = await this.dispatch(host, turn, key, replay);
      if (recorded === undefined) return await this.call(host, turn, key, run);
      if (recorded.state === 'succeeded') {
        if (recorded.replay !== 'transaction') return decodeResult(recorded.result) as T;
        throw new TurnUsageError(turn.taskId, `'${key}' is the key of a transaction of this turn, not of an effect.`);
      }
      if (typeof contract.replay !== 'function') throw unresolved(turn, recorded);
      const outcome = await this.reconcile(host, turn, recorded, contract.replay);
      if (outcome.outcome === 'succeeded') {
        await this.settle(host, turn, key, { state: 'succeeded', result: encodeResult(key, outcome.result) });
        return outcome.result;
      }
      // It may be dispatched now: around once more.
      await this.settle(host, turn, key, { state: 'not_performed' });
      this.called.delete(key);
    }
  }

  /** Runs what is recorded as dispatched. What it throws leaves the outcome unknown, unless it says otherwise. */
  private async call<T>(
    host: EffectHost,
    turn: EffectTurn,
    key: string,
    run: (call: EffectCall) => Promise<T> | T,
  ): Promise<T> {
    await host.confirmLease();
    try {
      host.assertHeld();
    } catch (stopped) {
      // Nothing has left yet. If this cannot be recorded any more, the effect stays unresolved, which is the safe side.
      await this.store.settle(turn, key, { state: 'not_performed' }).catch(() => undefined);
      throw stopped;
    }
    this.called.add(key);
    let result: T;
    try {
      result = await insideBoundary(host, 'effect', async () => run(callOf(host, turn, key)));
    } catch (error) {
      if (!(error instanceof EffectNotPerformedError)) throw error;
      await this.settle(host, turn, key, { state: 'not_performed' });
      this.called.delete(key);
      throw error;
    }
    await this.settle(host, turn, key, { state: 'succeeded', result: encodeResult(key, result) });
    return result;
  }

  private async reconcile<T>(
    host: EffectHost,
    turn: EffectTurn,
    recorded: RecordedEffect,
    reconciler: EffectReconciler<T>,
  ): Promise<Exclude<EffectOutcome<T>, { outcome: 'unknown' }>> {
    const { key, attempt, dispatchedAt } = recorded;
    const effect = { ...callOf(host, turn, key), key, attempt, dispatchedAt };
    let outcome: EffectOutcome<T>;
    try {
      outcome = await insideBoundary(host, 'effect', async () => reconciler(effect));
    } catch (error) {
      throw unresolved(turn, recorded, error);
    }
    const said: unknown = outcome?.outcome;
    if (said === 'unknown') throw unresolved(turn, recorded);
    if (said === 'succeeded' || said === 'not_performed') return outcome as never;
    throw new TurnUsageError(
      turn.taskId,
      `The reconciler of '${key}' returned ${shown(outcome)}: ` +
        "it has to return { outcome: 'succeeded', result }, { outcome: 'not_performed' } or { outcome: 'unknown' }.",
    );
  }

  /** Records the dispatch. What it finds on record instead is returned. */
  private async dispatch(
    host: EffectHost,
    turn: EffectTurn,
    key: string,
    replay: ReplayContract,
  ): Promise<RecordedEffect | undefined> {
    racePoint('effect-dispatch.before');
    const dispatch = await untilRecorded<Dispatch>(host, () => this.store.dispatch(turn, { key, replay }));
    racePoint('effect-dispatch.after');
    if (dispatch.outcome === 'canceled') host.canceled();
    if (dispatch.outcome === 'dispatched') return undefined;
    const { effect } = dispatch;
    // Our own record, whose answer was lost: under this very lease, and nothing has been called since.
    const own = effect.attempt === turn.attempt && effect.generation === (turn.generation ?? 0);
    return effect.state === 'dispatched' && own && !this.called.has(key) ? undefined : effect;
  }

  private async settle(host: EffectHost, turn: EffectTurn, key: string, settlement: Settlement): Promise<void> {
    racePoint('effect-settle.before');
    await untilRecorded(host, () => this.store.settle(turn, key, settlement));
    racePoint('effect-settle.after');
  }
}

/** Repeats what may be repeated through passing trouble, as long as the lease can be relied on. */
async function untilRecorded<R>(host: EffectHost, write: () => Promise<R>): Promise<R> {
  const triedOutAt = performance.now() + host.retryMs;
  try {
    return await whileUnavailable(
      write,
      // Renewals may move the deadline while this waits, for ever where they go through and nothing else does.
      async () => performance.now() < triedOutAt && (await host.confirmLease()),
    );
  } catch (error) {
    if (!(error instanceof StoreUnavailableError)) throw error;
    throw new LeaseLostError(host.taskId, 'its effects could not be recorded before it ran out', { cause: error });
  }
}

const callOf = ({ signal, turnId }: EffectHost, { generation }: EffectTurn, key: string): EffectCall => ({
  idempotencyKey: idempotencyKey(turnId, key),
  fencingToken: generation,
  signal,
});

/** Letters that fit into any header: a hash, since names may hold anything and be of any length. */
export const idempotencyKey = (turnId: string, name: string): string =>
  createHash('sha256').update(`${turnId}\n${name}`).digest('base64url');

/** A wrong argument of a caller, shown in one line. */
export const shown = (value: unknown): string =>
  inspect(value, { depth: 1, maxStringLength: 100, maxArrayLength: 5, breakLength: Infinity });

/** One boundary at a time: what is inside of one has to be over before the next is recorded. */
export function refuseInside(host: { taskId: string }, what: string): void {
  const kind = boundaryOf(host);
  if (!kind) return;
  throw new TurnUsageError(
    host.taskId,
    `turn.${what} was called inside of ${kind === 'effect' ? 'an effect' : 'a transaction'} of the same turn: ` +
      'call one after the other.',
  );
}

export function checkKey(taskId: string, key: unknown): asserts key is string {
  if (typeof key === 'string' && key !== '' && key.length <= MAX_KEY_LENGTH && !UNSTORABLE.test(key)) return;
  throw new TurnUsageError(
    taskId,
    `The key of an effect is ${shown(key)}: ` +
      `it must be text of 1 to ${MAX_KEY_LENGTH} characters without NUL and without half a surrogate pair.`,
  );
}

function contractOf<T>(taskId: string, key: string, contract: EffectContract<T> | undefined): ReplayContract {
  const replay: unknown = contract?.replay;
  if (typeof replay === 'function') return 'reconcile';
  if (replay === 'never' || replay === 'idempotent') return replay;
  throw new TurnUsageError(
    taskId,
    `The contract of effect '${key}' has replay: ${shown(replay)}: it must be 'never', 'idempotent' or a function.`,
  );
}

const unresolved = ({ taskId }: EffectTurn, effect: RecordedEffect, cause?: unknown): Error =>
  new EffectUnresolvedError(
    taskId,
    effect.key,
    effect.replay,
    effect.attempt,
    effect.dispatchedAt,
    cause === undefined ? undefined : { cause },
  );
