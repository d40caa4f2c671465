import { Injectable } from '@nestjs/common';
import { within } from '../async/late-timer.js';
import { messageOf } from '../errors/described.js';
import { LeaseStore } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import { LeaseWatch } from './lease-watch.js';
import { RunningTurns } from './running-turns.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** How long, in ms, the ends of turns that a shutdown stops wait for the look at cancel requests. */
const LAST_LOOK_MS = 1_000;

/**
 * How long an end may take to be stored, in ms. A cancel that nobody obeys ends its turn only when its time is over.
 */
const STORE_MS = 500;

/** How long the leases of turns that could not be ended may take to be handed over, in ms. */
const LET_GO_MS = 500;

/** Ends the turns of a replica that shuts down. */
@Injectable()
export class TurnDrain {
  private readonly logger = new LibraryLogger('A2AClusterTurn');

  constructor(
    private readonly running: RunningTurns,
    private readonly watch: LeaseWatch,
    private readonly leases: LeaseStore,
    private readonly options: ResolvedOptions,
  ) {}

  /**
   * Lets running turns end by themselves for a while, then stops and ends them. No new ones are taken. It looks once more
   * for cancel requests that have not arrived: such a task ends CANCELED, not FAILED.
   */
  async run(): Promise<void> {
    this.running.close();
    racePoint('shutdown.drain');
    if (await this.running.idle(this.options.turns.drainTimeoutMs)) return;
    racePoint('shutdown.abort');
    this.logger.warn(`Stopping ${this.running.size} turns that outlast the drain time.`);
    // The executors hear of it at once, whatever the database does; the ends of their turns wait for the look.
    const look = this.watch.runOnce().catch((error: unknown) => {
      this.logger.warn(`No last look at cancel requests: ${messageOf(error)}`);
    });
    const lastLook = within(LAST_LOOK_MS, look);
    for (const turn of this.running) turn.shutDown(lastLook);
    // A cancel that it has found has all the time that cancels have.
    await lastLook;
    if (await this.running.idle(this.options.turns.cancelTimeoutMs + STORE_MS)) return;
    await this.letGo();
  }

  /** The last resort: the next sweep ends what could not be ended here in time. */
  private async letGo(): Promise<void> {
    const left = [...this.running];
    this.logger.error(`${left.length} turns could not be ended in time: their leases are left to the next sweep.`);
    const generations = left.flatMap(({ lease }) => (lease ? [lease.generation] : []));
    racePoint('let-go.before');
    const letGo = Promise.allSettled(generations.map((generation) => this.leases.handOver(generation, 0)));
    await within(LET_GO_MS, letGo);
    racePoint('let-go.after');
  }
}
