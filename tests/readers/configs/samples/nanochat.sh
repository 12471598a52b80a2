#!/bin/bash
torchrun --standalone --nproc_per_node=8 -m scripts.base_train -- \
    --run=d24 --depth=24 --max-seq-len=1024 --device-batch-size=16 \
    --total-batch-size=524288 --num-iterations=8000 --warmdown-ratio=0.5 \
    --final-lr-frac=0.1 --matrix-lr=0.03 --weight-decay=0.2 --fp8 \
    --fp8-recipe=rowwise --eval-every=100 --window-pattern=L
