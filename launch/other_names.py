"""Names that other libraries have for our config keys, to suggest the right one.

They come from transformers (TrainingArguments, model configs), fairseq, big_vision and
optax, in lower case with underscores.
"""

KEYS = {
    "data.label": "label_column label_column_name label_key",
    "data.length": "max_seq_length max_seq_len seq_len seq_length sequence_length "
    "block_size context_length max_source_length n_ctx tokens_per_sample",
    "data.test": "test_file test_path",
    "data.train": "train_file train_path train_data dataset dataset_name",
    "data.valid": "validation_file valid_file dev eval_file validation",
    "data.vocabulary": "tokenizer tokenizer_name tokenizer_path vocab vocab_file",
    "data.vocabulary_size": "vocab_size n_vocab num_embeddings",
    "model.activation": "hidden_act act_fn activation_fn activation_function",
    "model.attention_dropout": "attention_probs_dropout_prob attn_pdrop attn_dropout",
    "model.dropout": "hidden_dropout_prob dropout_rate resid_pdrop hidden_dropout",
    "model.dtype": "bf16 fp16 precision mixed_precision compute_dtype amp",
    "model.feedforward": "intermediate_size ffn_dim d_ff n_inner mlp_dim ff_dim "
    "feedforward_dim hidden_dim ffn_embed_dim",
    "model.heads": "num_heads n_heads n_head num_attention_heads attention_heads",
    "model.layers": "num_layers n_layers n_layer num_hidden_layers depth num_blocks",
    "model.max_length": "max_position_embeddings n_positions max_positions",
    "model.norm_epsilon": "layer_norm_eps layer_norm_epsilon rms_norm_eps norm_eps",
    "model.num_kv_heads": "num_key_value_heads kv_heads n_kv_heads",
    "model.remat": "gradient_checkpointing activation_checkpointing checkpointing",
    "model.tie_embeddings": "tie_word_embeddings tie_weights share_embeddings",
    "model.token_types": "type_vocab_size",
    "model.width": "hidden_size d_model n_embd embed_dim emb_dim model_dim dim "
    "hidden width_size",
    "objective.name": "loss objective_name",
    "objective.rate": "mask_rate mlm_probability mask_prob masking_rate mask_ratio "
    "masked_lm_prob noise_density corruption_rate mlm_prob",
    "optimizer.beta1": "b1 adam_beta1 betas",
    "optimizer.beta2": "b2 adam_beta2",
    "optimizer.clip_norm": "max_grad_norm grad_clip gradient_clip gradient_clip_val "
    "grad_norm_clip gradient_clip_norm clip_gradient_norm grad_clip_norm",
    "optimizer.ema_decay": "ema ema_rate",
    "optimizer.epsilon": "eps adam_eps adam_epsilon",
    "optimizer.final_fraction": "min_lr end_lr lr_end min_learning_rate",
    "optimizer.learning_rate": "lr peak_lr base_lr max_lr peak_learning_rate "
    "init_lr base_learning_rate",
    "optimizer.name": "optim optimizer_name optimizer_type optimizer",
    "optimizer.schedule": "lr_scheduler lr_scheduler_type lr_schedule scheduler",
    "optimizer.warmup_steps": "warmup_ratio num_warmup_steps warmup_updates "
    "warmup_iters lr_warmup_steps",
    "optimizer.weight_decay": "wd decay l2",
    "seed": "random_seed rng_seed",
    "train.accumulate": "gradient_accumulation_steps grad_accum accum_steps "
    "accumulate_grad_batches update_freq accumulation_steps",
    "train.batch": "batch_size train_batch_size per_device_train_batch_size "
    "global_batch_size bs micro_batch_size num_rows",
    "train.best_metric": "metric_for_best_model monitor",
    "train.checkpoint_every": "save_steps save_every save_interval checkpoint_steps "
    "checkpoint_interval ckpt_steps save_strategy",
    "train.early_stopping_patience": "early_stopping patience",
    "train.eval_every": "eval_steps eval_interval eval_freq val_check_interval "
    "evaluation_strategy eval_strategy validate_interval",
    "train.init_from": "model_name_or_path model_name pretrained init_checkpoint "
    "init_ckpt restore_from pretrained_model checkpoint resume_from_checkpoint "
    "load_from finetune_from_model",
    "train.keep_checkpoints": "save_total_limit max_to_keep keep_last_n",
    "train.log_every": "logging_steps log_steps log_interval log_training_steps",
    "train.steps": "max_steps num_steps num_train_steps total_steps train_steps "
    "max_iters max_updates training_steps total_updates epochs num_epochs "
    "num_train_epochs max_epochs max_epoch",
    "train.track": "wandb wandb_project report_to tracker",
}
"""Our key -> the names that others have for it."""

_OUR_KEY = {key.rpartition(".")[2]: key for key in KEYS} | {
    name: key for key, names in KEYS.items() for name in names.split()
}


SECTIONS = {"mesh", *(key.partition(".")[0] for key in KEYS)} - {"seed"}


def our_key(name: str) -> str:
    """Our name for another library's key, with or without a section; "": unknown."""
    return _OUR_KEY.get(name.rpartition(".")[2].lower().replace("-", "_"), "")


def flag_key(name: str) -> str:
    """The config key that a flag of this name may stand for; "": unknown."""
    section, dot, _ = name.partition(".")
    return name if dot and section in SECTIONS else our_key(name)
