import type { Task } from '@a2a-js/sdk';
import type { UnresolvedEffect } from '../effects/unresolved-effects.js';

/** A turn whose replica is gone, as a policy sees it. */
export interface AbandonedTurn {
  /** The task as it stands. */
  task: Task;
  /** The agent that this replica serves. */
  agentId: string;
  /** How often the request was run so far. A run that was handed over by a replica that shut down does not count. */
  attempts: number;
  /** After how many runs the request is not run again (`sweeper.maxAttempts`). */
  maxAttempts: number;
  /** The replica that held the lease last; null where it handed the turn over. */
  lastHolder: string | null;
  /** When that replica renewed the lease last, by the database's clock. */
  lastHeartbeat: Date;
  /** The outside actions that were dispatched without a recorded outcome. */
  unresolvedEffects: readonly UnresolvedEffect[];
}

/** A policy's decision about an abandoned turn. */
export type RecoveryDecision =
  /** The task ends FAILED; the message says why. Default of the message: what is known of the replica that is gone. */
  | { decision: 'fail'; message?: string }
  /** The request is run again. Where that is not permitted any more, the task ends FAILED. */
  | { decision: 're-execute' }
  /** Nothing happens for now. The policy is asked again at a later sweep. */
  | { decision: 'leave' };

/**
 * What becomes of turns whose replica died.
 *
 * - `'fail'`: the task ends FAILED.
 * - `'re-execute'`: the request is run again, up to `sweeper.maxAttempts` runs.
 * - A function decides for each turn. If it throws, takes longer than `leases.ttlMs` or returns none of the decisions,
 *   that is logged and the task ends FAILED.
 */
export type RecoveryPolicy =
  'fail' | 're-execute' | ((turn: AbandonedTurn) => RecoveryDecision | Promise<RecoveryDecision>);
