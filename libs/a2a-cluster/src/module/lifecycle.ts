import { Injectable } from '@nestjs/common';
import type { BeforeApplicationShutdown, OnApplicationBootstrap, OnModuleDestroy, OnModuleInit } from '@nestjs/common';
import { within } from '../async/late-timer.js';
import { messageOf } from '../errors/described.js';
import { LeaseStore } from '../leases/lease-store.js';
import { DatabaseAccess } from '../postgres/connection/database-access.js';
import { racePoint } from '../race-points/race-points.js';
import { TaskEventStream } from '../streams/task-event-stream.js';
import { ReplicaTransports } from '../transports/replica-transports.js';
import { ExecutorProvider } from '../turns/executor/executor-provider.js';
import { TurnDrain } from '../turns/turn-drain.js';
import { ReplicaLoops } from './replica-loops.js';
import { requireSchema } from './schema-check.js';
import { SeparateAgents } from './separate-agents.js';
import { LibraryLogger } from '../logging/library.logger.js';

/** How long the loops may take to finish what they are at when the app stops, in ms. */
const LOOPS_MS = 1_000;

/** The same for the end of streams and of the lease store. */
const STREAMS_MS = 250;

/**
 * The only class with Nest's lifecycle hooks. Everything that touches the database is done by the end of
 * beforeApplicationShutdown: after it TypeORM closes the DataSource.
 */
@Injectable()
export class A2AClusterLifecycle
  implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown
{
  private readonly logger = new LibraryLogger('A2AClusterLifecycle');

  constructor(
    private readonly agents: SeparateAgents,
    private readonly database: DatabaseAccess,
    private readonly executor: ExecutorProvider,
    private readonly transports: ReplicaTransports,
    private readonly loops: ReplicaLoops,
    private readonly drain: TurnDrain,
    private readonly stream: TaskEventStream,
    private readonly leases: LeaseStore,
  ) {}

  async onModuleInit(): Promise<void> {
    this.agents.verify();
    this.executor.verify();
    const { used } = this.database;
    if (used) await requireSchema(used.dataSource);
    this.transports.serve();
  }

  async onApplicationBootstrap(): Promise<void> {
    await this.database.used?.open();
    // Before the first request: whoever subscribes then hears of other replicas at once.
    await this.loops.firstPoll();
    await this.transports.listen();
    this.loops.start();
  }

  /** Drains while the transports still serve, renewals go on, and streams are told how their turns end. */
  async onModuleDestroy(): Promise<void> {
    this.transports.drain();
    await this.drain.run();
    racePoint('shutdown.drained');
  }

  async beforeApplicationShutdown(): Promise<void> {
    this.database.used?.closing.abort();
    await this.step('its loops', LOOPS_MS, this.loops.stop());
    await this.step('its streams', STREAMS_MS, this.stream.close());
    await this.transports.close();
    await this.step('its leases', STREAMS_MS, this.leases.close());
    await this.database.used?.close();
    racePoint('shutdown.closed');
  }

  /** A step of the shutdown that may need the database, which may hang: what is not done in time is broken off. */
  private async step(what: string, ms: number, work: Promise<unknown>): Promise<void> {
    const done = work.catch((error: unknown) => this.logger.warn(`Closing ${what} failed: ${messageOf(error)}`));
    if (!(await within(ms, done))) this.logger.warn(`Closing ${what} took longer than ${ms} ms and is broken off.`);
  }
}
