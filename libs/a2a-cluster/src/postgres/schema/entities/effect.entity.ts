import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** One outside action of a turn: that it was dispatched, and what is known of its outcome. */
@Entity({ name: 'a2a_task_effects' })
@Index(['dispatchedAt'])
export class EffectEntity {
  @PrimaryColumn({ name: 'task_no', type: 'bigint' })
  taskNo!: string;

  @PrimaryColumn({ name: 'turn_id', type: 'uuid' })
  turnId!: string;

  @PrimaryColumn({ type: 'text' })
  key!: string;

  /** `dispatched` (outcome unknown), `succeeded` or `not_performed`. */
  @Column({ type: 'text' })
  state!: string;

  /** The replay contract it was declared with: `never`, `idempotent` or `reconcile`. */
  @Column({ type: 'text' })
  replay!: string;

  @Column({ type: 'integer' })
  attempt!: number;

  /** The lease generation that dispatched it. */
  @Column({ type: 'bigint' })
  generation!: string;

  /** JSON of what it returned. */
  @Column({ type: 'text', nullable: true })
  result!: string | null;

  @Column({ name: 'dispatched_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  dispatchedAt!: Date;

  @Column({ name: 'settled_at', type: 'timestamp with time zone', nullable: true })
  settledAt!: Date | null;
}
