import { Column, Entity, PrimaryColumn, Unique } from 'typeorm';

/**
 * The right to run a turn on a task: the row is there exactly while the turn runs. The generation is the fencing token;
 * acquiring and claiming draw a new one from the identity's sequence (CACHE 1) under a row lock, so it only grows.
 * No index on expires_at: the table holds running turns only. Renewals do not touch it: they write the holder's row.
 */
@Entity({ name: 'a2a_task_leases' })
@Unique(['taskNo'])
export class LeaseEntity {
  @PrimaryColumn({ type: 'bigint', generated: 'identity', generatedIdentity: 'ALWAYS' })
  generation!: string;

  @Column({ name: 'task_no', type: 'bigint' })
  taskNo!: string;

  @Column({ type: 'text' })
  agent!: string;

  /** `message`: a turn of the executor. `cancel`: the short turn that cancels a waiting task. */
  @Column({ type: 'text' })
  kind!: string;

  /** The same over all attempts of one turn. */
  @Column({ name: 'turn_id', type: 'uuid' })
  turnId!: string;

  /** The task's version once the turn's message was in: a later status is one that this turn published. */
  @Column({ name: 'admitted_version', type: 'integer' })
  admittedVersion!: number;

  /** The replica that holds it; null while it waits for one. */
  @Column({ type: 'text', nullable: true })
  holder!: string | null;

  /** Whether it lives for as long as its holder's row does, should that be longer than its own time. */
  @Column({ name: 'follows_holder', type: 'boolean', default: false })
  followsHolder!: boolean;

  /** How many runs of the turn have begun; one that is handed over goes on in the next, and does not count. */
  @Column({ type: 'integer' })
  attempt!: number;

  /** Whether its holder's run is among them: between a claim and that there is time. */
  @Column({ type: 'boolean', default: true })
  begun!: boolean;

  /** How often it was claimed. */
  @Column({ type: 'integer', default: 0 })
  claims!: number;

  /** Its own time. It may live longer: see `followsHolder`. */
  @Column({ name: 'expires_at', type: 'timestamp with time zone' })
  expiresAt!: Date;

  @Column({ name: 'acquired_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  acquiredAt!: Date;

  @Column({ name: 'renewed_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  renewedAt!: Date;

  @Column({ name: 'cancel_requested_at', type: 'timestamp with time zone', nullable: true })
  cancelRequestedAt!: Date | null;

  /** JSON of the SendMessageRequest; null for a cancel turn. */
  @Column({ type: 'text', nullable: true })
  request!: string | null;

  /** JSON of what rebuilds the call context, made by the context codec. */
  @Column({ type: 'text' })
  context!: string;
}
