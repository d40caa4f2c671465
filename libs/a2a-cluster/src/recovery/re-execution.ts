import { Injectable } from '@nestjs/common';
import { SendMessageRequest, type Task } from '@a2a-js/sdk';
import type { ServerCallContext } from '@a2a-js/sdk/server';
import { whileUnavailable } from '../async/while-unavailable.js';
import { detailOf, messageOf } from '../errors/described.js';
import { LeaseLostError } from '../errors/lease-lost.error.js';
import type { HeldLease } from '../leases/heartbeat.js';
import { type ClaimedLease, LeaseStore } from '../leases/lease-store.js';
import { racePoint } from '../race-points/race-points.js';
import { ArtifactRestart, artifactsBefore } from '../tasks/artifact-restart.js';
import { referenceTasks } from '../tasks/reference-tasks.js';
import type { TaskEvent } from '../tasks/task-event.js';
import { type ScopeResolver, scopeResolver } from '../tasks/task-scope.js';
import { LeasedTaskStore } from '../tasks/leased-task-store.js';
import type { StoredTask } from '../tasks/task-store.js';
import { RunningTurns } from '../turns/running-turns.js';
import { AdmittedBefore } from '../turns/turn-entry.js';
import type { TurnExecution } from '../turns/turn-execution.js';
import { TurnFactory } from '../turns/turn-factory.js';
import { TurnRequestContext } from '../turns/turn-request-context.js';
import { TurnRunner } from '../turns/turn-runner.js';
import { ResolvedOptions } from '../options/cluster.options.js';
import { RequestNotRestoredError } from '../errors/request-not-restored.error.js';
import { LibraryLogger } from '../logging/library.logger.js';

const PAGE_EVENTS = 500;

/** The request in a lease, decoded. */
export interface RestoredRequest {
  callContext: ServerCallContext;
  request: SendMessageRequest;
}

/** Runs the request of an abandoned turn again, as the caller who sent it. */
@Injectable()
export class ReExecution {
  private readonly logger = new LibraryLogger(ReExecution.name);
  private readonly turnLogger = new LibraryLogger('A2AClusterTurn');
  private readonly scopeOf: ScopeResolver;

  constructor(
    private readonly turns: TurnFactory,
    private readonly runner: TurnRunner,
    private readonly running: RunningTurns,
    private readonly tasks: LeasedTaskStore,
    private readonly leases: LeaseStore,
    private readonly options: ResolvedOptions,
  ) {
    this.scopeOf = scopeResolver(options.ownerResolver);
  }

  /** The request, and the caller who sent it. Throws {@link RequestNotRestoredError}. */
  restore(claimed: ClaimedLease): RestoredRequest {
    return { callContext: this.restoreCaller(claimed), request: restoreRequest(claimed) };
  }

  /**
   * Starts it under the claimed lease. Its run is counted first: a request that kills its process, or whose log does, is
   * counted each time. The guards have let its message pass before, and are not asked again. Throws {@link LeaseLostError}
   * where the lease is gone, and {@link ReplicaDrainingError}.
   */
  async start(
    claimed: ClaimedLease,
    stored: StoredTask,
    { callContext, request }: RestoredRequest,
    lease: { held: HeldLease; sentAt: number },
  ): Promise<TurnExecution> {
    const { generation, turnId, attempt, admittedVersion } = claimed;
    const scope = claimed.scope!;
    const { contextId } = stored.task;
    await this.begin(scope.taskId, generation, lease.held);
    const restart = new ArtifactRestart(await this.artifactsBefore(stored, admittedVersion));
    const referenceTasks = await this.referenceTasks(request, callContext);
    this.running.assertOpen();
    const turn = this.turns.create({
      kind: 'message',
      scope,
      contextId,
      callContext,
      request,
      receipt: undefined,
      followUp: admittedVersion > 0,
      again: { turnId, attempt, restart },
    });
    turn.leaseTransferred(lease.held);
    const context = new TurnRequestContext(turn, request, callContext, stored.task, referenceTasks);
    // Nobody waits for its answer.
    void turn.outcome.then((outcome) => {
      if (outcome.kind !== 'refused') return;
      this.turnLogger.error(`The turn on task ${turn.taskId} could not be run again: ${detailOf(outcome.error)}`);
    });
    void this.runner.run(turn, context, new AdmittedBefore({ stored, generation, ...lease }));
    return turn;
  }

  /** Repeated while the lease lives: a run that was counted without an answer is not counted again. */
  private async begin(taskId: string, generation: number, held: HeldLease): Promise<void> {
    racePoint('run-begin.before');
    await whileUnavailable(
      async () => {
        if (await this.leases.begin(generation)) return;
        throw new LeaseLostError(taskId, 'another replica has claimed or ended it');
      },
      () => held.confirm(),
    );
    racePoint('run-begin.after');
  }

  /**
   * The tasks that the message refers to. They may have grown since it was accepted, and the bounds may have changed. Tasks
   * beyond the bounds are left out, since the turn has to be run all the same.
   */
  private referenceTasks({ message }: SendMessageRequest, callContext: ServerCallContext): Promise<Task[] | undefined> {
    const { maxReferenceTasks, maxReferenceBytes } = this.options.requests;
    const ids = [...new Set(message?.referenceTaskIds)].slice(0, maxReferenceTasks);
    return referenceTasks(this.tasks, ids, (id) => this.scopeOf(callContext, id), {
      maxBytes: maxReferenceBytes,
      tooLarge: (id) =>
        this.logger.warn(`A turn is run again without task ${id}, to which its message refers: too large.`),
    });
  }

  /** As nobody else: what was stored has to lead back to the owner of the task. */
  private restoreCaller({ context, scope }: ClaimedLease): ServerCallContext {
    const { tenant, owner, taskId } = scope!;
    let callContext: ServerCallContext;
    let restored;
    try {
      callContext = this.options.contextCodec.decode(context);
      restored = this.scopeOf(callContext, taskId);
    } catch (error) {
      throw new RequestNotRestoredError(`The caller of its request could not be restored: ${messageOf(error)}`, {
        cause: error,
      });
    }
    if (restored.tenant === tenant && restored.owner === owner) return callContext;
    throw new RequestNotRestoredError(
      'The caller of its request could not be restored: what was stored of him leads to another owner.',
    );
  }

  /** If events of the turn are gone, it cannot be told what it has appended: its artifacts begin empty. */
  private async artifactsBefore({ taskNo, version, task }: StoredTask, admittedVersion: number) {
    if (admittedVersion === 0 || task.artifacts.length === 0) return artifactsBefore({ ...task, artifacts: [] }, []);
    const events: TaskEvent[] = [];
    for (let at = admittedVersion; at < version;) {
      const page = await this.tasks.readEvents(taskNo, at, PAGE_EVENTS);
      if (page[0]?.version !== at + 1) return artifactsBefore({ ...task, artifacts: [] }, []);
      events.push(...page.map(({ event }) => event));
      at = page.at(-1)!.version;
    }
    return artifactsBefore(task, events);
  }
}

function restoreRequest({ request, scope }: ClaimedLease): SendMessageRequest {
  try {
    const restored = SendMessageRequest.fromJSON(JSON.parse(request ?? 'null'));
    if (!restored.message) throw new Error('it has no message');
    if (restored.message.taskId !== scope?.taskId) throw new Error('it is not for this task');
    return restored;
  } catch (error) {
    throw new RequestNotRestoredError(`Its request could not be restored: ${messageOf(error)}`, { cause: error });
  }
}
