import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** One event of a task's log: dense versions 1, 2, 3 …, append-only. Also the outbox that push reads. */
@Entity({ name: 'a2a_task_events' })
@Index(['createdAt'])
export class TaskEventEntity {
  @PrimaryColumn({ name: 'task_no', type: 'bigint' })
  taskNo!: string;

  @PrimaryColumn({ type: 'integer' })
  version!: number;

  /** JSON of the event, in the form of `task-event.codec.ts`. */
  @Column({ type: 'text' })
  event!: string;

  /** The commit that brought it: tells a commit whose answer was lost from one that failed. */
  @Column({ name: 'commit_id', type: 'uuid' })
  commitId!: string;

  @Column({ name: 'created_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  createdAt!: Date;
}
