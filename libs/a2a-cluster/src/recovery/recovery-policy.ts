import type { Task } from '@a2a-js/sdk';
import type { UnresolvedEffect } from '../effects/unresolved-effects.js';

/** A turn whose replica is gone, as a policy sees it. */
export interface AbandonedTurn {
  /** The task as it stands. */
  task: Task;
  agentId: string;
  /** How often it was run so far; one that was handed over by a replica that shut down does not count. */
  attempts: number;
  /** After how many it is not run again. */
  maxAttempts: number;
  /** The replica that held it last; null for one that was handed over. */
  lastHolder: string | null;
  /** Its last renewal of the lease, by the database's clock. */
  lastHeartbeat: Date;
  /** What it dispatched to the outside without recording an outcome. */
  unresolvedEffects: readonly UnresolvedEffect[];
}

/** What is to become of an abandoned turn. */
export type RecoveryDecision =
  /** The task ends FAILED; the message says why. Default: what is known of the replica that is gone. */
  | { decision: 'fail'; message?: string }
  /** The request is run again; where that is not permitted any more, the task ends FAILED. */
  | { decision: 're-execute' }
  /** Nothing for now: it is asked again at a later sweep. */
  | { decision: 'leave' };

/**
 * What becomes of turns whose replica died. `fail`: the task ends FAILED. `re-execute`: the request is run again, up to
 * `maxAttempts`. A function decides for each; one that throws, takes longer than the TTL or returns none of the
 * decisions is logged, and the task ends FAILED.
 */
export type RecoveryPolicy =
  'fail' | 're-execute' | ((turn: AbandonedTurn) => RecoveryDecision | Promise<RecoveryDecision>);

const DECISIONS: unknown[] = ['fail', 're-execute', 'leave'];

/** Asks the policy, unless the signal aborts. Throws where it does not give one of the decisions in time. */
export async function askPolicy(
  policy: RecoveryPolicy,
  turn: AbandonedTurn,
  timeoutMs: number,
  stop: AbortSignal,
): Promise<RecoveryDecision> {
  if (typeof policy === 'string') return { decision: policy };
  if (stop.aborted) return { decision: 'leave' };
  let leave!: () => void;
  const stopped = new Promise<RecoveryDecision>((resolve) => (leave = () => resolve({ decision: 'leave' })));
  stop.addEventListener('abort', leave, { once: true });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not decide within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    const decided = await Promise.race([policy(turn), late, stopped]);
    if (DECISIONS.includes(decided?.decision)) return decided;
    throw new Error(`it returned ${JSON.stringify(decided)}, which has none of the decisions ${DECISIONS.join(', ')}`);
  } finally {
    clearTimeout(timer);
    stop.removeEventListener('abort', leave);
  }
}

/** Why a turn may not be run again; undefined where it may. */
export function refusalOf({ attempts, maxAttempts, unresolvedEffects }: AbandonedTurn): string | undefined {
  if (attempts >= maxAttempts) return `It was run ${attempts} times, and is not run again (sweeper.maxAttempts).`;
  const forbidden = unresolvedEffects.find(({ replay }) => replay === 'never');
  return forbidden && `It is not run again, since the outside action '${forbidden.key}' must not be repeated.`;
}
