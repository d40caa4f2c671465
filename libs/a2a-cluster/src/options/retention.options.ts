import { ClusterOptionsError } from '../errors/cluster-options.error.js';
import { requireWhole, withoutUndefined } from './rules.js';
import type { StreamOptions } from './stream.options.js';
import type { TurnOptions } from './turn.options.js';

/**
 * How long what is over is kept. Events are kept for `streams.retentionMs`, receipts of messages for
 * `turns.messageIdWindowMs`.
 */
export interface RetentionOptions {
  /**
   * How long the ledger of outside actions is kept, in ms from an action's dispatch. An action whose turn is not over
   * is kept in any case: the record keeps it from being repeated. After the turn it is evidence.
   *
   * `Infinity`: for ever. Otherwise a whole number up to 100 years, and at least `turns.maxTurnDurationMs`, for which a
   * turn may ask what it has done. Default: 7 days, or `turns.maxTurnDurationMs` where that is finite and longer.
   */
  effectsMs: number;
  /**
   * How long a task is kept after its end, in ms. Later it is not found any more, and its outside actions and push
   * receivers are gone with it. A task is kept until its push receivers have been told of its end, or were given up.
   *
   * `Infinity`: for ever. Otherwise a whole number up to 100 years, and at least `streams.retentionMs`, since a task's
   * events go first. Default: `Infinity`.
   */
  tasksMs: number;
}

const CENTURY_MS = 100 * 365 * 24 * 3_600_000;

/** A week to ask what a turn has done. */
const EFFECTS_KEPT_MS = 7 * 24 * 3_600_000;

const RETENTION_DEFAULTS: RetentionOptions = {
  effectsMs: EFFECTS_KEPT_MS,
  tasksMs: Infinity,
};

/** The retention with its defaults. Throws {@link ClusterOptionsError}. */
export function resolveRetention(
  given: Partial<RetentionOptions> | undefined,
  streams: StreamOptions,
  turns: TurnOptions,
): RetentionOptions {
  const retention: RetentionOptions = { ...RETENTION_DEFAULTS, ...withoutUndefined(given) };
  if (given?.effectsMs === undefined && turns.maxTurnDurationMs !== Infinity) {
    retention.effectsMs = Math.max(EFFECTS_KEPT_MS, turns.maxTurnDurationMs);
  }
  if (retention.effectsMs !== Infinity) requireEffectsKept(retention.effectsMs, turns);
  if (retention.tasksMs !== Infinity) requireTasksKept(retention.tasksMs, streams);
  return retention;
}

function requireEffectsKept(effectsMs: number, { maxTurnDurationMs }: TurnOptions): void {
  requireWhole('retention.effectsMs', effectsMs, 1, CENTURY_MS);
  if (maxTurnDurationMs === Infinity || effectsMs >= maxTurnDurationMs) return;
  throw ClusterOptionsError.rule(
    'retention.effectsMs',
    effectsMs,
    `it must be at least turns.maxTurnDurationMs (${maxTurnDurationMs}): until then a turn may ask what it has done`,
  );
}

function requireTasksKept(tasksMs: number, { retentionMs }: StreamOptions): void {
  requireWhole('retention.tasksMs', tasksMs, 1, CENTURY_MS);
  if (tasksMs >= retentionMs) return;
  throw ClusterOptionsError.rule(
    'retention.tasksMs',
    tasksMs,
    `it must be at least streams.retentionMs (${retentionMs}), by which a task's events go first`,
  );
}
