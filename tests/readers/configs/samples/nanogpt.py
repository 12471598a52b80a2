# two ranks, small model
wandb_log = True
wandb_project = "small"
wandb_run_name = "gpt2-small-owt"

dataset = "openwebtext"
batch_size = 8
block_size = 512
gradient_accumulation_steps = 5 * 4

n_layer = 10
n_head = n_layer
n_embd = 64 * n_head
dropout = 0.1
bias = True

learning_rate = 5e-4
max_iters = 100_000
lr_decay_iters = max_iters
min_lr = learning_rate / 10
warmup_iters = 1000
weight_decay = 1e-1
beta2 = 0.99
decay_lr = True
grad_clip = 0.0

dtype = "bfloat16"
compile = False
eval_interval = 500
eval_iters = 50
log_interval = 10
always_save_checkpoint = False
