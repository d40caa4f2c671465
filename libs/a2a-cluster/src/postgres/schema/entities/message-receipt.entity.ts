import { Column, Entity, Index, PrimaryColumn } from 'typeorm';

/** A message that was accepted: a repeated POST of it finds its task. */
@Entity({ name: 'a2a_message_receipts' })
@Index(['createdAt'])
export class MessageReceiptEntity {
  @PrimaryColumn({ type: 'text' })
  tenant!: string;

  @PrimaryColumn({ type: 'text' })
  owner!: string;

  @PrimaryColumn({ type: 'text' })
  agent!: string;

  @PrimaryColumn({ name: 'message_id', type: 'text' })
  messageId!: string;

  /** Hash of the message's content: clients that reuse an id for another message get a new turn. */
  @PrimaryColumn({ type: 'text' })
  fingerprint!: string;

  @Column({ name: 'task_no', type: 'bigint' })
  taskNo!: string;

  @Column({ name: 'created_at', type: 'timestamp with time zone', default: () => 'clock_timestamp()' })
  createdAt!: Date;
}
