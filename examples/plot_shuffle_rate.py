"""
Shuffling the samples lowers the accuracy under the FFT
=======================================================

The samples are sorted by class, as in benchmark files, and then a growing fraction of them is shuffled. The data remain
the same. The circular total variation (CTV), the change between consecutive samples, grows; the accuracy of t-SVD-MVC
with the FFT falls.
"""

import matplotlib.pyplot as plt

import tensormvc as tm

views, y = tm.datasets.load_digits_views(200, class_sorted=True)
model = tm.TSVDMVC(10, basis="fft", random_state=0)
sweep = tm.shuffle_sweep(model, views, y, rates=(0, 0.25, 0.5, 0.75, 1), n_repeats=2)
print(sweep)
tm.plotting.plot_shuffle_sweep(sweep)
plt.show()
