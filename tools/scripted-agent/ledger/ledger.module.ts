import { type DynamicModule, Module } from '@nestjs/common';
import { LedgerController } from './ledger.controller.js';
import { Ledger } from './ledger.service.js';

/** The ledger that the agent charges, and its count over HTTP. */
@Module({})
export class LedgerModule {
  static forRoot(databaseUrl: string): DynamicModule {
    return {
      module: LedgerModule,
      controllers: [LedgerController],
      providers: [{ provide: Ledger, useFactory: () => new Ledger(databaseUrl) }],
      exports: [Ledger],
    };
  }
}
