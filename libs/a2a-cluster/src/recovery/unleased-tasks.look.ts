import { Injectable } from '@nestjs/common';
import { messageOf } from '../errors/described.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { StaticOptions } from '../options/static.options.js';
import type { LeaseTimes } from '../options/lease.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** How many are looked for, and so counted, at most. */
const MAX_COUNTED = 1_000;
/** How many are named. */
const NAMED = 5;

/**
 * One look, when a replica with leases starts, for tasks that were begun without: no sweep finds them, and should their
 * replica be gone they run for ever. They are not ended here, since a replica without leases may still run them.
 */
@Injectable()
export class UnleasedTasksLook {
  private readonly logger = new LibraryLogger('A2AClusterModule');
  private looking: Promise<void> | undefined;
  private stopped = false;
  private readonly agent: string;
  private readonly leases: LeaseTimes | false;

  constructor(
    private readonly tasks: LeasedTaskStore,
    { agentId }: StaticOptions,
    { leases }: ResolvedOptions,
  ) {
    this.agent = agentId;
    this.leases = leases;
  }

  /** Begins the look, which nobody waits for. */
  start(): void {
    this.looking ??= this.runOnce();
  }

  /** Warns if there are such tasks. Never fails. */
  async runOnce(): Promise<void> {
    if (!this.leases) return;
    try {
      // A task that has changed within a lease's TTL may be about to end, or to begin.
      const found = await this.tasks.withoutLease(this.leases.ttlMs, MAX_COUNTED);
      if (found.length === 0 || this.stopped) return;
      const named = found.slice(0, NAMED).map(({ taskId }) => taskId);
      const count = found.length < MAX_COUNTED ? String(found.length) : `${MAX_COUNTED} or more`;
      this.logger.warn(
        `Tasks of agent '${this.agent}' in a running state without a lease: ${count}, the oldest of them ${named.join(', ')}. ` +
          'They were begun with leases: false. A replica without leases may still run them; if none does, nobody ends them ' +
          'and they stay as they are: cancel them (docs/operations/migrations.md, "Turning leases on").',
      );
    } catch (error) {
      if (!this.stopped) this.logger.warn(`Tasks without a lease could not be looked for: ${messageOf(error)}`);
    }
  }

  /** Waits for a look that is under way. */
  async stop(): Promise<void> {
    this.stopped = true;
    await this.looking;
  }
}
