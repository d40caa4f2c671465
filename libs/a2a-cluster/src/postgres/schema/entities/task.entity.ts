import { Column, CreateDateColumn, Entity, Index, PrimaryColumn, Unique, VersionColumn } from 'typeorm';
import { INTERRUPTED_LIST, SETTLED_LIST, TERMINAL_LIST } from '../state-lists.js';

/**
 * One A2A task: where it stands, and a snapshot of what it holds. The event log is the truth, the snapshot a cache of
 * it. Written by the statements of `task-statements.ts` only: `save()` would not check the version.
 */
@Entity({ name: 'a2a_tasks' })
@Unique(['taskId', 'tenant', 'owner'])
@Index(['tenant', 'owner', 'agent', 'stateSince', 'taskNo'])
@Index(['tenant', 'owner', 'agent', 'contextId', 'stateSince', 'taskNo'])
@Index(['tenant', 'owner', 'agent', 'state', 'stateSince', 'taskNo'])
@Index(['agent', 'stateSince'], { where: `state IN ${INTERRUPTED_LIST}` })
@Index(['agent', 'stateSince'], { where: `state IN ${TERMINAL_LIST}` })
@Index(['agent', 'stateSince'], { where: `state NOT IN ${SETTLED_LIST}` })
export class TaskEntity {
  /** The key of the other tables. */
  @PrimaryColumn({ name: 'task_no', type: 'bigint', generated: 'identity', generatedIdentity: 'ALWAYS' })
  taskNo!: string;

  @Column({ type: 'text' })
  tenant!: string;

  @Column({ type: 'text' })
  owner!: string;

  /** The protocol's task id; unique within tenant and owner. */
  @Column({ name: 'task_id', type: 'text' })
  taskId!: string;

  @Column({ type: 'text' })
  agent!: string;

  @Column({ name: 'context_id', type: 'text' })
  contextId!: string;

  /** The protocol's name of the state, such as `TASK_STATE_WORKING`. */
  @Column({ type: 'text' })
  state!: string;

  /** When the last status was stored, by the database's clock. */
  @Column({ name: 'state_since', type: 'timestamp with time zone' })
  stateSince!: Date;

  /** Version of the last status that an executor or the cluster set; a user's message never moves it. */
  @Column({ name: 'state_version', type: 'integer' })
  stateVersion!: number;

  /** Number of events in the task's log. */
  @VersionColumn({ type: 'integer' })
  version!: number;

  @Column({ type: 'text' })
  snapshot!: string;

  /** The version that the snapshot shows. */
  @Column({ name: 'snapshot_version', type: 'integer' })
  snapshotVersion!: number;

  /** JSON of the task without its history and artifacts: what lists show. None where it is long, or not known. */
  @Column({ type: 'text', nullable: true })
  head!: string | null;

  /**
   * The version that the head shows. Each commit moves it along, but those of replicas of before the column: a head of
   * another version than the task's is not to be believed.
   */
  @Column({ name: 'head_version', type: 'integer', nullable: true })
  headVersion!: number | null;

  @CreateDateColumn({ name: 'created_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  createdAt!: Date;

  @Column({ name: 'updated_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  updatedAt!: Date;
}
