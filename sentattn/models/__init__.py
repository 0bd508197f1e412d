"""Models: embed, encode, attend, pool, classify.

Names of tensors end in the letters of their shape: B batch, L tokens (padded), E embedding, D encoder output,
A attention hidden, R hops (rows of the attention matrix), H heads, P pooled vector, C classes. `dim` is the width of
what comes into a part. Constructors raise `ValueError` where arguments are out of
range or do not fit together.
"""
