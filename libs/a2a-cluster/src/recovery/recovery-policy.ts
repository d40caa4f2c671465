import type { AbandonedTurn, RecoveryDecision, RecoveryPolicy } from '../options/recovery-policy.js';

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
