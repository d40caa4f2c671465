import { MAX_TIMER_MS, requireDuration, requireOneOf, requireWhole, withoutUndefined } from './rules.js';

/** Times and bounds of turns. */
export interface TurnOptions {
  /**
   * How long the sender of a message waits for the agent's first event, in ms. After it the task of a new message is
   * stored as SUBMITTED, with the message and the lease: streams and senders that want an immediate answer get it, a
   * proxy sees an answer, and a crash is recovered. An agent that then answers with a plain Message completes the task
   * with it. The sender of a follow-up is answered with the task as it was.
   *
   * `Infinity`: nothing is stored or answered before the agent says something. Otherwise a whole number from 1 to
   * 2^31 - 1. Default: 1 000, well below the time-outs of proxies and the patience of people.
   */
  firstEventMs: number;
  /**
   * How long a turn may run, in ms, its guards included. Then its signal aborts with `TurnTimeoutError` and its task
   * ends FAILED. A turn that is run again has the whole time again.
   *
   * `Infinity`: no limit; an executor that never settles then holds its task for ever. Otherwise a whole number from 1
   * to 2^31 - 1. Default: 24 h, which ends what hangs and spares what works.
   */
  maxTurnDurationMs: number;
  /**
   * What becomes of a task whose executor returns without bringing it to an end and without asking for anything.
   * `'fail'`: it ends FAILED. `'complete'`: it ends COMPLETED. Either status says so. Default: `'fail'`, since such a
   * return is more often a mistake than an answer.
   */
  unfinishedTurn: 'fail' | 'complete';
  /**
   * How long a replica that shuts down lets its turns end by themselves, in ms. Then their signals abort with
   * `ReplicaShutdownError` and their tasks end FAILED; with a `sweeper.policy` other than `'fail'` they are handed over
   * to another replica. A whole number from 0 to 2^31 - 1. Default: 10 000: with `cancelTimeoutMs` and 5 s more a
   * replica then ends within the 30 s that Kubernetes gives a pod.
   */
  drainTimeoutMs: number;
  /**
   * How long a turn has to clean up after a cancel, in ms. Then its replica writes CANCELED by itself. If that has not
   * come after a `streams.pollIntervalMs` more, the replica that took the cancel writes it.
   *
   * A shutdown gives the same time to the ends of the turns that it stops, and half of it to outside actions under way.
   * Give the process `drainTimeoutMs + cancelTimeoutMs` and 5 s to stop. A whole number from 1 to 2^31 - 1. Default:
   * 5 000.
   */
  cancelTimeoutMs: number;
  /**
   * How much may wait to be stored of what one turn has published, in characters of JSON (bytes, where it is ASCII).
   * Beyond it the turn fails with `TurnOverflowError`, and its task ends FAILED: `await turn.flush()` between events
   * keeps an executor below it. A whole number of at least 1. Default: 64 MiB.
   */
  maxQueuedBytes: number;
}

/** How long a message is recognised when it is sent again: a part of the option group `turns`. */
export interface RepeatedMessageOptions {
  /**
   * How long a message is recognised when it is sent again with the same `messageId` and the same content, in ms. It
   * then starts no second turn: its sender gets the task of the first one. The receipts that this takes are deleted
   * after the same time. 0: a message that is sent again is a new one. A whole number from 0 to 2^31 - 1. Default:
   * 5 min, longer than clients repeat a request.
   */
  messageIdWindowMs: number;
}

const TURN_DEFAULTS: TurnOptions & RepeatedMessageOptions = {
  firstEventMs: 1_000,
  maxTurnDurationMs: 24 * 3_600_000,
  unfinishedTurn: 'fail',
  drainTimeoutMs: 10_000,
  cancelTimeoutMs: 5_000,
  maxQueuedBytes: 64 * 1024 * 1024,
  messageIdWindowMs: 5 * 60_000,
};

/** The turns with their defaults. Throws `ClusterOptionsError`. */
export function resolveTurns(
  given: Partial<TurnOptions & RepeatedMessageOptions> | undefined,
): TurnOptions & RepeatedMessageOptions {
  const turns = { ...TURN_DEFAULTS, ...withoutUndefined(given) };
  if (turns.maxTurnDurationMs !== Infinity) requireDuration('turns.maxTurnDurationMs', turns.maxTurnDurationMs);
  if (turns.firstEventMs !== Infinity) requireDuration('turns.firstEventMs', turns.firstEventMs);
  requireOneOf('turns.unfinishedTurn', turns.unfinishedTurn, ['fail', 'complete']);
  requireWhole('turns.drainTimeoutMs', turns.drainTimeoutMs, 0, MAX_TIMER_MS);
  requireDuration('turns.cancelTimeoutMs', turns.cancelTimeoutMs);
  requireWhole('turns.maxQueuedBytes', turns.maxQueuedBytes, 1, Number.MAX_SAFE_INTEGER);
  requireWhole('turns.messageIdWindowMs', turns.messageIdWindowMs, 0, MAX_TIMER_MS);
  return turns;
}
