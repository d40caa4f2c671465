import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A push receiver of a task, and how far along the task's log it has been told. */
@Entity({ name: 'a2a_push_configs' })
@Index(['claimedUntil'], { where: 'failed IS NULL' })
export class PushConfigEntity {
  @PrimaryColumn({ name: 'task_no', type: 'bigint' })
  taskNo!: string;

  @PrimaryColumn({ name: 'config_id', type: 'text' })
  configId!: string;

  /** JSON of the TaskPushNotificationConfig. */
  @Column({ type: 'text' })
  config!: string;

  /** The protocol version it was registered over, which is the one it is told in. */
  @Column({ name: 'wire_version', type: 'text' })
  wireVersion!: string;

  @Column({ name: 'delivered_version', type: 'integer' })
  deliveredVersion!: number;

  /** When it may be claimed: the end of a claim, the time of a retry, 'infinity' once it has been told the end. */
  @Column({ name: 'claimed_until', type: 'timestamp with time zone', nullable: true })
  claimedUntil!: Date | null;

  @Column({ type: 'integer', default: 0 })
  attempts!: number;

  /** Why delivery was given up; null while it goes on. */
  @Column({ type: 'text', nullable: true })
  failed!: string | null;
}
