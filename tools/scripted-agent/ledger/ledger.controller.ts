import { Controller, Get, Param } from '@nestjs/common';
import { Ledger, type LedgerCount } from './ledger.service.js';

/** Says what reached the ledger, whatever the tasks say of it. */
@Controller('ledger')
export class LedgerController {
  constructor(private readonly ledger: Ledger) {}

  @Get(':taskId')
  count(@Param('taskId') taskId: string): Promise<LedgerCount> {
    return this.ledger.count(taskId);
  }
}
