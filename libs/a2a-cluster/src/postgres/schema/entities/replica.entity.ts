import { Column, Entity, PrimaryColumn } from 'typeorm';

/**
 * A replica that holds leases: renewing them is an update of this one row. A low fillfactor and no second index: the updates
 * stay heap-only, and while an old snapshot keeps their versions, these are a few pages.
 */
@Entity({ name: 'a2a_replicas' })
export class ReplicaEntity {
  /** Unique per boot. */
  @PrimaryColumn({ type: 'text' })
  holder!: string;

  @Column({ name: 'started_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  startedAt!: Date;

  @Column({ name: 'renewed_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  renewedAt!: Date;

  /** Until then nobody claims a lease that follows it. A replica that holds nothing lets this pass. */
  @Column({ name: 'expires_at', type: 'timestamp with time zone' })
  expiresAt!: Date;

  /** How often it was renewed after it had run out. */
  @Column({ type: 'integer', default: 0 })
  lapses!: number;
}
